"""`import kopf` gives this toolkit, to operators and to the packages they use.

Call `install_as_kopf()` once, before the first import of kopf (`ctl run` does so before it loads the operator's files;
so does the package `kopf` of `ctl alias install`). From then on a finder before all others serves `kopf`, `kopf.on`,
`kopf.testing` and `kopf.cli`, also where Kopf itself is installed. The public names are Kopf's. A name of a part that
is not built yet can be imported and used in annotations; other uses raise an error. The private modules of Kopf
(`kopf._cogs` and the like) can be imported too, since programs import public names from them, mostly for annotations,
and `diff()`. Their other names are refused, with the public names to use instead.
"""

import ast
import difflib
import importlib
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Final, NoReturn

from .._exports import EXPORTS, MODULES, OWN, PENDING, resolve
from .._version import KOPF_VERSION, VERSION
from ..runtime.imports import when_imported
from .private import RENAMED, advice, inner_modules, is_inner

UNLISTED: Final = frozenset({"adjust_namespace", "harmonize_naming"})
"""Names that Kopf lets users import, and that its `__all__` lacks."""

_PACKAGE: Final = __name__.rpartition(".cli.")[0]
_INNER: Final = inner_modules()
_ON: Final = dict.fromkeys(
    [
        "startup",
        "cleanup",
        "login",
        "probe",
        "validate",
        "mutate",
        "resume",
        "create",
        "update",
        "delete",
        "field",
        "index",
        "event",
        "daemon",
        "timer",
        "subhandler",
        "register",
    ],
    "on",
)
"""Name in `kopf.on` -> our module that has it."""
_CLI: Final = {
    "main": "cli.main",
    "run": "cli.run",
    "freeze": "cli.peering",
    "resume": "cli.peering",
    "logging_options": "cli.options",
    "CLIControls": "cli.options",
}
"""Name in `kopf.cli` -> our module that has it."""


class Pending:
    """A name of Kopf whose part is not built yet: it can be imported and used in annotations; other uses raise
    NotImplementedError.
    """

    def __init__(self, name: str, line: str) -> None:
        self._name = name
        self._line = line

    def __repr__(self) -> str:
        return f"<{self._name}: not there yet, comes with ctl {self._line}>"

    def __getitem__(self, item: Any) -> "Pending":
        return self

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse. Raises NotImplementedError with the release line that brings the part."""
        raise NotImplementedError(self._excuse())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise NotImplementedError(self._excuse())

    def __getattr__(self, name: str) -> Any:
        # Protocol lookups (copy, inspect, typing) must find nothing rather than fail.
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(self._excuse())

    def _excuse(self) -> str:
        return (
            f"{self._name} is not there yet in ctl {VERSION}: it comes with ctl {self._line}. "
            f"Until then, leave the part of the operator that needs it to Kopf."
        )


def kopf_names() -> list[str]:
    """All names of Kopf's `__all__`, sorted."""
    pending = {name for name in PENDING if "." not in name}
    return sorted({*EXPORTS, *MODULES, *pending} - OWN - UNLISTED)


def install_as_kopf() -> None:
    """Make `import kopf` mean this toolkit, for the rest of the process; doing so again changes nothing.

    Raises ImportError when Kopf itself has been imported already: its importers use Kopf's registry, so their handlers
    would silently be lost.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if present := sys.modules.get("kopf"):
        raise ImportError(
            f"Kopf has been imported already, by {_importers(present)}. To run its handlers here, "
            f"ctl must come first: call ctl.install_as_kopf() before that import, or start the operator with `ctl run`.",
            name="kopf",
        )
    _begin()


def take_place(name: str) -> None:
    """Fill the module of this name, which is being imported, as `kopf`: for the package of `ctl alias install`."""
    _begin()
    _Loader().exec_module(sys.modules[name])


def _begin() -> None:
    sys.meta_path.insert(0, _Finder())
    if "pkg_resources" in sys.modules:
        _tell_pkg_resources()
    else:
        when_imported("pkg_resources", _tell_pkg_resources)


def _tell_pkg_resources() -> None:
    """pkg_resources finds distributions in folders only, when it is imported."""
    known = sys.modules["pkg_resources"]
    known.working_set.add(known.Distribution(project_name="kopf", version=KOPF_VERSION), replace=True)


class _Finder(MetaPathFinder):
    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        # Imported only for processes that ask for distributions; most do not.
        from .distribution import AliasDistribution

        return AliasDistribution.asked(context)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _MODULES or fullname in _INNER:
            # Names that are imported from a private module are looked up as its submodules, and refused there with advice.
            is_package = fullname == "kopf" or fullname in _INNER
            return ModuleSpec(fullname, _Loader(), origin=f"ctl {VERSION}", is_package=is_package)
        if is_inner(fullname):
            # `from kopf import _cogs` would hide a ModuleNotFoundError, which programs catch for modules of old versions.
            private = fullname.startswith("kopf._")
            raise (ImportError if private else ModuleNotFoundError)(_refusal(fullname), name=fullname)
        return None


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        inner = module.__name__ in _INNER
        names, lookup, extra = _describe_inner(module.__name__) if inner else _MODULES[module.__name__]()
        vars(module).update(extra, __all__=names, __doc__=f"`{module.__name__}` as ctl {VERSION} has it.")

        def __getattr__(name: str) -> Any:  # noqa: N807 - a module's own, PEP 562
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name)
            try:
                value = lookup(name)
            except AttributeError:
                text = f"module {module.__name__!r} has no attribute {name!r}"
                if inner:
                    text += f": it is a private part of Kopf. {advice(name, (), ())}"
                elif close := difflib.get_close_matches(name, names, n=1):
                    text += f". Did you mean {close[0]!r}?"
                raise AttributeError(text, name=name) from None
            setattr(module, name, value)
            return value

        vars(module)["__getattr__"] = __getattr__
        vars(module)["__dir__"] = lambda: sorted({*names, *extra})


_Description = tuple[list[str], Callable[[str], Any], Mapping[str, Any]]
"""A module's `__all__`, a function that looks up a name (or raises AttributeError), and its initial names."""


def _pending(module: str, key: str) -> Pending:
    return Pending(f"{module}.{key.rpartition('.')[2]}", PENDING[key])


def _describe_kopf() -> _Description:
    versions = {
        "__version__": KOPF_VERSION,
        "__version_tuple__": tuple(int(part) for part in KOPF_VERSION.split(".")),
        "__commit_id__": None,
    }

    def lookup(name: str) -> Any:
        if name == "on" or f"kopf.{name}" in _INNER:
            return importlib.import_module(f"kopf.{name}")
        if name in PENDING:
            return _pending("kopf", name)
        if name in OWN:
            raise AttributeError(name)
        return resolve(_PACKAGE, name)

    return kopf_names(), lookup, versions


def _describe_part(part: str, places: Mapping[str, str], names: Sequence[str] = ()) -> _Description:
    def lookup(name: str) -> Any:
        if f"{part}.{name}" in PENDING:
            return _pending(f"kopf.{part}", f"{part}.{name}")
        if name not in places:
            raise AttributeError(name)
        return getattr(importlib.import_module(f"{_PACKAGE}.{places[name]}"), name)

    return [*places, *names], lookup, {}


def _describe_inner(module: str) -> _Description:
    public = kopf_names()

    def lookup(name: str) -> Any:
        kopf, known = importlib.import_module("kopf"), RENAMED.get(name, name)
        if known in public:
            return getattr(kopf, known)
        if known in PENDING:
            return _pending("kopf.testing", known)
        if f"{module}.{name}" in _INNER:
            return importlib.import_module(f"{module}.{name}")
        if module.endswith(".lifecycles"):
            return getattr(kopf.lifecycles, name)
        if module.endswith(".diffs") and name == "diff":
            return importlib.import_module(f"{_PACKAGE}.handlers.causes.diffs").diff
        raise AttributeError(name)

    return public, lookup, {}


_MODULES: Final[Mapping[str, Callable[[], _Description]]] = {
    "kopf": _describe_kopf,
    "kopf.on": partial(_describe_part, "on", _ON),
    "kopf.testing": partial(_describe_part, "testing", {}, ["KopfRunner"]),
    "kopf.cli": partial(_describe_part, "cli", _CLI),
}


def _importers(kopf: ModuleType) -> str:
    """The modules that refer to Kopf or to its objects."""

    def holds(module: ModuleType) -> bool:
        return any(
            value is kopf or str(getattr(value, "__module__", "")).partition(".")[0] == "kopf"
            for value in list(vars(module).values())
        )

    names = sorted(
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != "kopf" and hasattr(module, "__dict__") and holds(module)
    )
    return ", ".join(names[:3]) or "a module that keeps no name of it"


def _refusal(module: str) -> str:
    """The error for an inner module of Kopf: the importing line, and what to import instead."""
    frame = _importer()
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    what = "a private part" if module.startswith("kopf._") else "a part of old versions"
    told, names = _imported(frame, module)
    if told in _INNER:
        there = importlib.import_module(told)
        names = [name for name in names if not hasattr(there, name)] or [module.rpartition(".")[2]]
        told = f"{', '.join(names)} of {told}"
    return (
        f"{place} imports {told}, {what} of Kopf that ctl does not have. "
        f"{advice(told, names, kopf_names())} Or run this operator with Kopf."
    )


def _imported(frame: FrameType, module: str) -> tuple[str, list[str]]:
    """The module and the names of the import statement that is running, if its source is available."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return module, []
    here = [
        node
        for node in ast.walk(tree)
        if getattr(node, "lineno", 0) <= frame.f_lineno <= (getattr(node, "end_lineno", 0) or 0)
    ]
    for node in here:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kopf"):
            names = [alias.name for alias in node.names]
            return (f"kopf.{names[0]}", []) if node.module == "kopf" else (str(node.module), names)
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names if alias.name.startswith(module)]
            return (found[0] if found else module), []
    return module, []


def _importer() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__") == __name__ or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return frame
