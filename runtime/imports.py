"""Calls a function after a module was imported, wherever and whenever that happens; unimported modules cost nothing."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Then = Callable[[], None]


def when_imported(name: str, then: Then) -> None:
    """Call a function right after the first import of the module of this full name. Nothing happens if it is imported already.

    Asking for the same twice changes nothing. An error of `then` is raised by the import.
    """
    finder = next((found for found in sys.meta_path if isinstance(found, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    wishes = finder.wishes.setdefault(name, [])
    if then not in wishes:
        wishes.append(then)


class _Finder(MetaPathFinder):
    """Comes before all other finders, and lets them find the module."""

    def __init__(self) -> None:
        self.wishes: dict[str, list[Then]] = {}
        self._asked: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.wishes or fullname in self._asked:
            return None
        with self._asking(fullname):
            spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.wishes[fullname])
        return spec

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        self._asked.add(name)
        try:
            yield
        finally:
            self._asked.discard(name)


class _Loader(Loader):
    """Loads the module as it would be loaded, then does what is wished."""

    def __init__(self, loader: Loader, wishes: Sequence[Then]) -> None:
        self._loader = loader
        self._wishes = wishes

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for then in self._wishes:
            then()
