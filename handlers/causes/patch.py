"""A patch gathers the changes that handlers want on their object.

It is a dict in the form of a merge patch (RFC 7386: mappings merge, None deletes, anything else replaces), with functions
for changes that a merge patch cannot express, such as those in lists.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from ...client.patches import Operation, copy, json_diff, merge_patch
from ...client.wire.request import plain as as_json

PatchFn: TypeAlias = Callable[[dict[str, Any]], None]
"""Changes a raw body in place. It may be called more than once, each time for a newer version of the object."""


class PatchView(MutableMapping[str, Any]):
    """One mapping in a patch; the patch gets it when a key is set in it."""

    __slots__ = ("__weakref__", "_patch", "_path")

    def __init__(self, patch: "Patch", path: tuple[str, ...]) -> None:
        self._patch = patch
        self._path = path

    def _find(self) -> dict[str, Any]:
        found: Any = self._patch
        for key in self._path:
            found = found.get(key)
            if found is None:
                return {}
        return found  # type: ignore[no-any-return]

    def _make(self) -> dict[str, Any]:
        found: dict[str, Any] = self._patch
        for key in self._path:
            inner = found.get(key)
            if inner is None:
                inner = found[key] = {}
            found = inner
        return found

    def __getitem__(self, key: str) -> Any:
        return self._find()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._make()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._find()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._find())

    def __len__(self) -> int:
        return len(self._find())

    def __repr__(self) -> str:
        return repr(self._find())


class MetaPatch(PatchView):
    """The metadata in a patch."""

    __slots__ = ()

    @property
    def labels(self) -> PatchView:
        """The labels to set, or to delete where the value is None."""
        return self._patch._view(PatchView, (*self._path, "labels"))

    @property
    def annotations(self) -> PatchView:
        """The annotations to set, or to delete where the value is None."""
        return self._patch._view(PatchView, (*self._path, "annotations"))


_ViewT = TypeVar("_ViewT", bound=PatchView)


class Patch(dict[str, Any]):
    """The wanted changes: the merge patch itself, and functions (`fns`) that are applied after it, in order.

    True when there is anything to change. Equality compares the merge patch only. A patch made of another one begins with
    the functions of that one. Each view of a patch is one object while it is referred to.
    """

    __slots__ = ("_reference", "_views", "fns")

    def __init__(
        self,
        src: Mapping[str, Any] | None = None,
        /,
        body: Mapping[str, Any] | None = None,
        fns: Iterable[PatchFn] = (),
    ) -> None:
        """Start with a merge patch, the object that is patched (for `as_json_patch`), and functions."""
        super().__init__(src or {})
        self._reference = body
        # Made at the first use. Views refer to the patch; the patch refers to them weakly, so that no cycle keeps both.
        self._views: dict[tuple[str, ...], ref[Any]] | None = None
        self.fns: list[PatchFn] = [*(src.fns if isinstance(src, Patch) else ()), *fns]

    def let_go(self, body: Mapping[str, Any]) -> None:
        """Take what is left of the object as the reference of `as_json_patch`, if there was one."""
        if self._reference is not None:
            self._reference = body

    def __bool__(self) -> bool:
        return len(self) > 0 or self.fns != []

    def __repr__(self) -> str:
        parts = [super().__repr__()] if len(self) else []
        parts += [f"fns={self.fns!r}"] if self.fns else []
        return f"Patch({', '.join(parts)})"

    @property
    def metadata(self) -> MetaPatch:
        """The metadata to change."""
        return self._view(MetaPatch, ("metadata",))

    meta = metadata

    @property
    def spec(self) -> PatchView:
        """The specification to change."""
        return self._view(PatchView, ("spec",))

    @property
    def status(self) -> PatchView:
        """The status to change."""
        return self._view(PatchView, ("status",))

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # A copy makes its own views.
        return None, {"_reference": self._reference, "_views": None, "fns": self.fns}

    def _view(self, cls: type[_ViewT], path: tuple[str, ...]) -> _ViewT:
        if self._views is None:
            self._views = {}
        known = self._views.get(path)
        view: _ViewT | None = None if known is None else known()
        if view is None:
            view = cls(self, path)
            self._views[path] = ref(view)
        return view

    def clear(self) -> None:
        """Forget all changes, and the functions."""
        super().clear()
        self.fns.clear()

    def as_json_patch(self, body: Mapping[str, Any] | None = None) -> list[Operation]:
        """The same change as a JSON patch (RFC 6902) of a body: the merge patch first, then the functions.

        Without a body, that of the constructor is the reference; ValueError when there is none and the patch is not
        empty. Never contains `move` or `copy`, so that each operation concerns the stanza of its path only. Errors of the
        functions pass through.
        """
        if not self:
            return []
        reference = self._reference if body is None else body
        if reference is None:
            raise ValueError(
                "Cannot build a JSON-patch without the original body as a reference. It is computed against the object that it "
                "changes: as_json_patch(body), or Patch(body=body)."
            )
        return json_diff(reference, lay_over(reference, self))


def lay_over(raw: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A body as it will be once the patch is applied, its functions included; neither argument is changed.

    Stanzas that are in the patch only because a key was set and deleted in them are not made. Errors of the functions pass
    through.
    """
    changes = {key: value for key, value in patch.items() if value != {} or key not in _AUTOMATIC}
    metadata = changes.get("metadata")
    if isinstance(metadata, (dict, Mapping)) and any(metadata.get(key) == {} for key in _AUTOMATIC_META):
        changes["metadata"] = {
            key: value for key, value in metadata.items() if value != {} or key not in _AUTOMATIC_META
        }
    result: dict[str, Any] = merge_patch(raw, changes)
    for fn in getattr(patch, "fns", ()):
        fn(result)
    return result


def compose(target: Patch, later: Mapping[str, Any]) -> None:
    """Merge a later patch into a patch: mappings merge, otherwise the later value wins.

    The functions of the later one are added at the end. The later patch is neither changed nor shared.
    """
    _merge(target, later)
    target.fns.extend(getattr(later, "fns", ()))


_AUTOMATIC = frozenset({"metadata", "spec", "status"})
_AUTOMATIC_META = frozenset({"labels", "annotations"})


def _merge(target: dict[str, Any], later: Mapping[str, Any]) -> None:
    for key, value in later.items():
        known = target.get(key)
        if isinstance(known, dict) and isinstance(value, (dict, Mapping)):
            _merge(known, value)
        else:
            target[key] = copy(value)


class Unwritable(TypeError):
    """A value in a patch that JSON cannot represent. `path` is its place (`status.progress.0`), `found` a description."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(
            f"The patch has {found} at {path}, which JSON cannot represent. It is not written; put text, finite "
            f"numbers, booleans, None, dates, lists, or mappings with text as keys there."
        )
        self.path = path
        self.found = found


def make_plain(patch: Patch) -> list[Unwritable]:
    """Turn a merge patch into plain JSON values: dates become text, sets become lists, keys become text.

    Values that JSON cannot represent are removed and returned; of a list with such a value, the whole list. Functions of the
    patch stay as they are.
    """
    found: list[Unwritable] = []
    plain = _mapping(patch, "", found)
    dict.clear(patch)
    dict.update(patch, plain)
    return found


def _mapping(mapping: Mapping[Any, Any], path: str, found: list[Unwritable]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in mapping.items():
        where = f"{path}.{key}" if path else f"{key}"
        try:
            name = _key(key, where)
            if isinstance(value, Mapping):
                plain[name] = _mapping(value, where, found)
            else:
                plain[name] = _value(value, where)
        except Unwritable as exc:
            found.append(exc)
        except RecursionError:
            found.append(Unwritable(where, "a value that contains itself"))
    return plain


def _key(key: Any, where: str) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    if not isinstance(key, str):
        raise Unwritable(where, f"the key {key!r} ({type(key).__name__})")
    return _text(key, where)


def _value(value: Any, where: str) -> Any:
    if value is None or type(value) in {bool, int}:
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise Unwritable(where, f"{value!r}")
    if isinstance(value, Mapping):
        inner: list[Unwritable] = []
        plain = _mapping(value, where, inner)
        if inner:
            raise inner[0]
        return plain
    if isinstance(value, (list, tuple)):
        return [_value(item, f"{where}.{index}") for index, item in enumerate(value)]
    try:
        return as_json(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise Unwritable(where, f"a {type(value).__qualname__}") from exc


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Unwritable(where, f"text that is not valid Unicode ({text!r})") from exc
    return str.__str__(text)
