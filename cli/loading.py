"""Imports the user's files and modules, so that their decorators register the handlers.

The traceback of a failed import shows the user's own code only, without frames of this toolkit and of the import
system.
"""

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

_PACKAGE_FOLDER: Final = Path(__file__).resolve().parent.parent


class LoadingError(click.ClickException):
    """The user's code failed while it was imported. Ends the command with its traceback and exit code 1."""

    def __init__(self, what: str, exc: BaseException) -> None:
        super().__init__(what)
        self._trace = "".join(_users_traceback(exc).format())

    def show(self, file: Any = None) -> None:
        """Write the traceback, then what was being loaded."""
        click.echo(f"{self._trace}Error: {self.format_message()}", err=True)


def load(paths: Sequence[str], modules: Sequence[str]) -> None:
    """Import the files, then the modules, in this order.

    A file becomes the module `__kopf_script_{number}__{path}` and its folder the first entry of `sys.path` (Kopf's
    names, which pickles and third-party tools know). Modules are looked for in the current folder too, last of all.
    Raises click.UsageError for a file or module that does not exist, LoadingError for one that fails.
    """
    _require(paths)
    for number, path in enumerate(paths):
        _load_file(number, path)
    if modules and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    for name in modules:
        _load_module(name)


def _require(paths: Iterable[str]) -> None:
    for path in paths:
        if not Path(path).exists():
            hint = " To load a module by its name, use -m." if "/" not in path and not path.endswith(".py") else ""
            raise click.UsageError(f"The file {path} does not exist (looked for in {Path.cwd()}).{hint}")
        if Path(path).is_dir():
            raise click.UsageError(f"{path} is a folder; a Python file is expected, for example {path}/main.py.")


def _load_file(number: int, path: str) -> None:
    sys.path[0] = str(Path(path).parent.absolute())
    name = f"__kopf_script_{number}__{path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{path} is no Python file: its name should end with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as exc:
        raise _failed(path, exc) from None


def _load_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise _failed(f"The module {name}", exc) from None
        raise click.UsageError(
            f"There is no module {exc.name}. Looked for in the current folder {Path.cwd()}, on PYTHONPATH, and among what is "
            f"installed for {sys.executable}."
        ) from None
    except Exception as exc:
        raise _failed(f"The module {name}", exc) from None
    if _is_pythons(name):
        raise click.UsageError(
            f"{name} is a module of Python's own, which hides others of that name. Load yours as a file, without -m "
            f"(ctl run {name}.py), or give it another name."
        )


def _is_pythons(name: str) -> bool:
    if name not in sys.stdlib_module_names:
        return False
    library = Path(sysconfig.get_path("stdlib"))
    # A package of the user may have such a name where Linux distributions leave Python's out (`test`).
    file = sys.modules[name].__file__
    return file is None or Path(file).parent in (library, library / name)


def _failed(what: str, exc: Exception) -> LoadingError:
    """The error to raise, with advice where the traceback gives none."""
    missing = isinstance(exc, ModuleNotFoundError)
    advice = f" Install what it imports for {sys.executable}, or mend the import." if missing else ""
    return LoadingError(f"{what} could not be loaded ({type(exc).__name__}, see above).{advice}", exc)


def _users_traceback(exc: BaseException) -> traceback.TracebackException:
    """The traceback without the frames of this toolkit and of the import system, its causes included."""
    trace = traceback.TracebackException.from_exception(exc)
    waiting, seen = [trace], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        part.stack[:] = [frame for frame in part.stack if not is_toolkit(frame.filename)]
        linked = [part.__cause__, part.__context__, *(part.exceptions or ())]
        waiting += [other for other in linked if other is not None]
    return trace


def modules_of_user(before: Collection[str]) -> list[ModuleType]:
    """The modules that are loaded and not in `before`, without installed ones and without this toolkit."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in before or file is None or is_toolkit(file):
            continue
        if not installed & set(Path(file).resolve().parents):
            found.append(module)
    return found


def is_toolkit(filename: str) -> bool:
    """Whether a file belongs to this toolkit or to the import system, and not to the user."""
    if filename.startswith("<frozen importlib"):
        return True
    path = Path(filename).resolve()
    if not path.is_relative_to(_PACKAGE_FOLDER):
        return False
    # In a checkout, the package's folder also has examples and tests, which count as the user's.
    return (_PACKAGE_FOLDER / path.relative_to(_PACKAGE_FOLDER).parts[0] / "__init__.py").exists() or (
        path.parent == _PACKAGE_FOLDER
    )
