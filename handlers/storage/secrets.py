"""The values of a Secret are sealed before they are remembered anywhere: a hash tells that one changed, and nothing else.

The essence of an object is copied into an annotation, and to logs, diffs and handlers' arguments; what was secret in the
object would not be there. Kopf copies the values as they are; essences that it has stored are sealed when they are read.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from ..causation.views import BodyEssence

SEAL = "blake2b:"
"""How a sealed value begins. No value of `data` does: those are base64."""

_STANZAS = ("data", "stringData")


def seal(essence: BodyEssence, body: Mapping[str, Any]) -> BodyEssence:
    """The essence of a body with each value of a Secret replaced by its hash; what is sealed, or no Secret, stays as it is.

    The hashes are salted with the object's uid, so that equal values of two Secrets cannot be told by them. The argument
    may be given back, but is not changed.
    """
    if ("data" not in essence and "stringData" not in essence) or not is_secret(body):
        return essence
    salt = str((body.get("metadata") or {}).get("uid") or "").encode()[:64]
    sealed = {stanza: _sealed(essence[stanza], salt) for stanza in _STANZAS if isinstance(essence.get(stanza), Mapping)}
    return {**essence, **sealed} if sealed else essence


def _sealed(values: Mapping[str, Any], salt: bytes) -> dict[str, Any]:
    return {
        key: value if value is None or (isinstance(value, str) and value.startswith(SEAL)) else _hash(value, salt)
        for key, value in values.items()
    }


def _hash(value: Any, salt: bytes) -> str:
    return SEAL + hashlib.blake2b(str(value).encode(), digest_size=16, key=salt).hexdigest()


class Shown:
    """Something of an object as it may be logged: of a Secret without its values. It costs nothing unless it is written.

    A body, a merge patch, the operations of a JSON patch, or the items of a diff; the annotation in which `kubectl apply` keeps a whole
    object is hidden too.
    """

    __slots__ = ("_is_secret", "_value")

    def __init__(self, value: Any, *, is_secret: bool) -> None:
        self._value = value
        self._is_secret = is_secret

    def __repr__(self) -> str:
        return repr(_hidden(self._value) if self._is_secret else self._value)


_HIDDEN = "..."
_COPIES = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


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
    if isinstance(value, tuple) and len(value) == 4 and isinstance(value[1], tuple):
        kind, field, old, new = value
        return kind, field, _hidden(old, field), _hidden(new, field)
    if isinstance(value, list | tuple):
        return type(value)(_hidden(item, path) for item in value) if type(value) in {list, tuple} else value
    return value
