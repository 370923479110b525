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
    if body.get("kind") != "Secret" or body.get("apiVersion") != "v1":
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
