"""The values of a Secret are sealed before they are stored anywhere: a hash tells that one changed, and nothing else.

The essence of an object is copied into an annotation; what was secret in the object would not be there. Kopf copies the values as they are;
essences that it has stored are sealed when they are read. Handlers are to see values: the process knows what its seals stand for.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...runtime.texts import cut
from ..causes.views import BodyEssence

SEAL = "blake2b:"
"""How a sealed value begins. No value of `data` does: those are base64."""

LARGEST: Final = 64 * 1024 * 1024
"""How many characters of values are remembered, of all Secrets together."""

_STANZAS = ("data", "stringData")


class Values:
    """What seals stand for, by the uids of the Secrets, for as long as there is room.

    Where there is none, those of the Secrets go that were not asked for longest; the last one that was sealed stays whatever its size.
    They are in this memory alone: never in a log, on a page, or on an object.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._size = 0
        self._by_uid: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<the values of {len(self._by_uid)} Secrets>"

    def note(self, uid: str, found: Mapping[str, Any]) -> None:
        """Remember what seals stand for."""
        known = self._by_uid.setdefault(uid, {})
        self._by_uid.move_to_end(uid)
        self._size -= _size(known)
        known.update(found)
        self._size += _size(known)
        while self._size > self._largest and len(self._by_uid) > 1:
            _, dropped = self._by_uid.popitem(last=False)
            self._size -= _size(dropped)

    def reveal(self, uid: str, essence: BodyEssence) -> BodyEssence:
        """An essence with the values that are known in the places of their seals; the argument is not changed."""
        known = self._by_uid.get(uid)
        if known is None:
            return essence
        self._by_uid.move_to_end(uid)
        stanzas = [stanza for stanza in _STANZAS if isinstance(essence.get(stanza), Mapping)]
        shown = {stanza: {key: known.get(value, value) for key, value in essence[stanza].items()} for stanza in stanzas}
        return {**essence, **shown}

    def retain(self, uid: str, states: Iterable[BodyEssence]) -> None:
        """Forget the values that are in none of the states of an object."""
        known = self._by_uid.get(uid)
        if known is None:
            return
        stanzas = (state.get(stanza) for state in states for stanza in _STANZAS)
        used = {value for stanza in stanzas if isinstance(stanza, Mapping) for value in stanza.values()}
        if len(used) < len(known) or not known.keys() <= used:
            self._size -= _size(known)
            self._by_uid[uid] = kept = {sealed: value for sealed, value in known.items() if sealed in used}
            self._size += _size(kept)

    def forget(self, uid: str) -> None:
        """Forget all of an object."""
        self._size -= _size(self._by_uid.pop(uid, {}))


def _size(values: Mapping[str, Any]) -> int:
    return sum(len(sealed) + len(str(value)) for sealed, value in values.items())


def seal(essence: BodyEssence, body: Mapping[str, Any], values: Values | None = None) -> BodyEssence:
    """The essence of a body with each value of a Secret replaced by its hash; what is sealed, or no Secret, stays as it is.

    The hashes are salted with the object's uid, so that equal values of two Secrets cannot be told by them. `values` are told what
    they stand for. The essence may be given back, but is not changed.
    """
    if ("data" not in essence and "stringData" not in essence) or not is_secret(body):
        return essence
    uid = str((body.get("metadata") or {}).get("uid") or "")
    salt, found = uid.encode()[:64], dict[str, Any]()
    stanzas = [stanza for stanza in _STANZAS if isinstance(essence.get(stanza), Mapping)]
    sealed = {stanza: _sealed(essence[stanza], salt, found) for stanza in stanzas}
    if found and values is not None:
        values.note(uid, found)
    return {**essence, **sealed} if sealed else essence


def _sealed(values: Mapping[str, Any], salt: bytes, found: dict[str, Any]) -> dict[str, Any]:
    sealed = {}
    for key, value in values.items():
        sealed[key] = value
        if value is not None and not (isinstance(value, str) and value.startswith(SEAL)):
            sealed[key] = made = _hash(value, salt)
            found[made] = value
    return sealed


def _hash(value: Any, salt: bytes) -> str:
    return SEAL + hashlib.blake2b(str(value).encode(), digest_size=16, key=salt).hexdigest()


class Shown:
    """Something of an object as it may be logged: of a Secret without its values, and no more of anything than LONGEST_SHOWN characters.

    A body, a merge patch, the operations of a JSON patch, or the items of a diff; annotations in which others keep a copy of the object
    (`kubectl apply`, Kopf) are hidden too. It costs nothing unless it is written.
    """

    __slots__ = ("_is_secret", "_text", "_value")

    def __init__(self, value: Any, *, is_secret: bool) -> None:
        self._value = value
        self._is_secret = is_secret
        self._text: str | None = None

    def __repr__(self) -> str:
        if self._text is None:
            self._text = cut(repr(_hidden(self._value) if self._is_secret else self._value), LONGEST_SHOWN)
        return self._text


LONGEST_SHOWN = 10_000
"""In characters."""
_HIDDEN = "..."
_COPIES = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_MARKS = tuple(f'"{stanza}"' for stanza in _STANZAS)
"""What the JSON of a Secret has in it."""


def is_secret(body: Mapping[str, Any]) -> bool:
    """Whether it is the body of a Secret."""
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def _hidden(value: Any, path: tuple[str, ...] = ()) -> Any:
    if path and (path[0] in _STANZAS or path[-1] in _COPIES):
        return dict.fromkeys(value, _HIDDEN) if isinstance(value, Mapping) else value and _HIDDEN
    if isinstance(value, Mapping):
        if "op" in value and "path" in value:
            below = tuple(part.replace("~1", "/").replace("~0", "~") for part in str(value["path"]).split("/")[1:])
            return {key: _hidden(item, below) if key == "value" else item for key, item in value.items()}
        return {key: _hidden(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, str) and any(mark in value for mark in _MARKS):
        return _HIDDEN
    if isinstance(value, tuple) and len(value) == 4 and isinstance(value[1], tuple):
        kind, field, old, new = value
        return kind, field, _hidden(old, field), _hidden(new, field)
    if isinstance(value, list | tuple):
        return type(value)(_hidden(item, path) for item in value) if type(value) in {list, tuple} else value
    return value
