"""Annotations are named here, so that every id fits, and so that operators tell their own annotations from others'.

Kopf has had two ways to form names; both are written for rollbacks, and the newer is read first. Both are Kopf's to the
byte, for all names that the API accepts. Where it accepts neither (Kopf's own patch would be refused), a third name is used.
"""

import base64
import hashlib
import json
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...runtime.texts import cut
from ..causes.patch import Patch
from ..causes.views import Body, BodyEssence

DEFAULT_PREFIX = "kopf.zalando.org"
LONGEST_PREFIX = 253 - 64
LONGEST_NAME = 63

_MARKER = "kopf-managed"
_ACCEPTED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_REFUSED = re.compile(r"[^-A-Za-z0-9_.]")
_FORMING = ("make_keys", "make_v2_key", "make_v1_key", "make_safe_key", "make_suffix", "_repaired")
"""By what names are formed, as far as it depends on nothing but the raw key, the prefix and `v1`."""


class StoredStateError(ValueError):
    """What is stored on an object under one of our names cannot be read; somebody else has written it."""

    def __init__(self, body: Mapping[str, Any], place: str, finding: str, found: Any = None) -> None:
        """Say what was found where; the beginning of the value `found` is shown, unless it may be a Secret's."""
        if found is not None:
            finding = f"{finding}: {cut(repr(found)) if body.get('kind') != 'Secret' else 'a ' + type(found).__name__}"
        meta = Body(body).metadata
        where = f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
        super().__init__(
            f"Expected {place} of {body.get('kind') or 'the object'} {where} to hold what a Kopf-compatible operator "
            f"wrote; {finding}. Repair it, or remove it: then the object is handled as if it had never been stored."
        )


def decoded(text: Any, body: Body, place: str) -> dict[str, Any] | None:
    """The JSON object, or null, that is stored in a place. Raises StoredStateError for anything else."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError) as exc:
        raise StoredStateError(body, place, f"it is no JSON: {exc}") from exc
    if found is not None and not isinstance(found, dict):
        raise StoredStateError(body, place, "it is no JSON object", found)
    return found


_NONE: Mapping[str, Any] = {}


def annotations_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations of a body or of a patch, as they are in it; not a view, since looking into those is slow."""
    raw = body._data if type(body) is Body else body
    return (raw.get("metadata") or _NONE).get("annotations") or _NONE


class KeyForming:
    """Forms annotation keys (`prefix/name`) from the ids of handlers and other raw keys."""

    prefix: str
    v1: bool
    _forms_otherwise = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """See whether names are formed as here, so that each needs to be formed only once."""
        super().__init_subclass__(**kwargs)
        cls._forms_otherwise = any(getattr(cls, name) is not getattr(KeyForming, name) for name in _FORMING)

    def __init__(self, *, prefix: str | None = DEFAULT_PREFIX, v1: bool = True) -> None:
        """Take a prefix (a DNS name) for all keys; `v1` also writes the older form of long keys.

        Raises ValueError for an empty prefix.
        """
        if not prefix:
            raise ValueError(
                "Annotations storages must be prefixed: give a DNS name, such as 'my-operator.example.com'."
            )
        if len(prefix) > LONGEST_PREFIX:
            message = "The annotations prefix is too long. It can cause errors when PATCHing."
            warnings.warn(message, UserWarning, stacklevel=3)
        self.prefix = prefix
        self.v1 = v1

    def make_keys(self, key: str, *, body: Mapping[str, Any] | None = None) -> list[str]:
        """The keys as Kopf forms them, the one to read first first. The body tells collisions (see `mark_key`)."""
        marked = key if body is None else self.mark_key(key, body=body)
        newer = self.make_v2_key(marked)
        older = self.make_v1_key(marked) if self.v1 else newer
        return [newer] if older == newer else [newer, older]

    def usable_keys(self, key: str, *, body: Mapping[str, Any]) -> Sequence[str]:
        """The keys to read and write: those of `make_keys` that the API accepts; one of ours when it accepts none."""
        if not self._forms_otherwise:
            return _formed(self.prefix, self.v1, self.mark_key(key, body=body))
        keys = self.make_keys(key, body=body)
        return _accepted(keys) or [self._repaired(self.mark_key(key, body=body))]

    def mark_key(self, key: str, *, body: Mapping[str, Any]) -> str:
        """Tell a ReplicaSet of a Deployment from the Deployment: Kubernetes copies annotations from that to this."""
        raw = body._data if type(body) is Body else body
        if raw.get("kind") == "ReplicaSet":
            owners = Body(body).metadata.get("ownerReferences") or ()
            if any(owner.get("kind") == "Deployment" for owner in owners):
                return f"{key}-ofDRS"
        return key

    def make_v2_key(self, key: str, max_length: int = LONGEST_NAME) -> str:
        """The newer form: the name alone is limited, and made unique by a hash of the raw key when it is cut."""
        suffix = self.make_suffix(key) if len(key) > max_length else ""
        return f"{self.prefix}/{self.make_safe_key(key)[: max_length - len(suffix)]}{suffix}"

    def make_v1_key(self, key: str, max_length: int = LONGEST_NAME) -> str:
        """The older form: prefix and name are limited together, and the hash is that of the safe key.

        For prefixes about as long as the limit the arithmetic goes wrong and cuts nothing, or too much, as in Kopf.
        """
        safe = self.make_safe_key(key)
        left = max_length - len(self.prefix) - 1
        suffix = self.make_suffix(safe) if len(safe) > left else ""
        return f"{self.prefix}/{safe[: left - len(suffix)]}{suffix}"

    @staticmethod
    def make_safe_key(key: str) -> str:
        """The key without those characters of ids that names must not have: `/`, `<`, `>`."""
        return key.replace("/", ".").replace("<", "_").replace(">", "_")

    @staticmethod
    def make_suffix(key: str) -> str:
        """A short hash of the key, with a dash before it, that can end a name."""
        digest = hashlib.blake2b(key.encode("utf-8"), digest_size=4).digest()
        return f"-{base64.b64encode(digest, altchars=b'-.').decode('ascii')}".rstrip("=-.")

    def _repaired(self, key: str) -> str:
        suffix = f"-{hashlib.blake2b(key.encode('utf-8'), digest_size=4).hexdigest()}"
        name = _REFUSED.sub("_", self.make_safe_key(key)).lstrip("-_.")[: LONGEST_NAME - len(suffix)] or "id"
        return f"{self.prefix}/{name}{suffix}"


# Asked for several times for each object. Ids are few, unless sub-handlers have an id for each item of something.
@lru_cache(maxsize=1024)
def _formed(prefix: str, v1: bool, marked: str) -> tuple[str, ...]:
    # Not by the constructor: it has warned of a long prefix already.
    forming = object.__new__(KeyForming)
    forming.prefix, forming.v1 = prefix, v1
    return tuple(_accepted(forming.make_keys(marked)) or [forming._repaired(marked)])


def _accepted(keys: Iterable[str]) -> list[str]:
    return [made for made in keys if _ACCEPTED.fullmatch(made.rpartition("/")[2])]


class KeyMarking:
    """Marks the annotations of operators, so that operators with other prefixes ignore them in their diffs."""

    @staticmethod
    def store_marker(*, prefix: str, body: Mapping[str, Any], patch: Patch) -> None:
        """Say that annotations with this prefix are an operator's. Prefixes that start with `kopf.` are known anyway."""
        if prefix.startswith("kopf."):
            return
        marker = f"{prefix}/{_MARKER}"
        annotations = patch.metadata.annotations
        if marker not in Body(body).metadata.annotations and marker not in annotations:
            annotations[marker] = "yes"

    @staticmethod
    def detect_marked_prefixes(keys: Iterable[str]) -> frozenset[str]:
        """The prefixes among annotation keys that belong to operators."""
        pairs = [(prefix, name) for prefix, slash, name in (key.partition("/") for key in keys) if slash]
        return frozenset(
            prefix
            for prefix, name in pairs
            if name == _MARKER or prefix == DEFAULT_PREFIX or prefix.endswith(f".{DEFAULT_PREFIX}")
        )


class StanzaCleaning:
    """Takes out of essences what is not essential. Essences are changed in place, but nothing they share with a body is."""

    @staticmethod
    def remove_annotations(essence: BodyEssence, keys_to_remove: Collection[str]) -> None:
        """Remove annotations by their keys; those that are absent are ignored."""
        metadata = essence.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        if not annotations.keys().isdisjoint(keys_to_remove):
            left = {key: value for key, value in annotations.items() if key not in keys_to_remove}
            essence["metadata"] = {**metadata, "annotations": left}

    @staticmethod
    def remove_empty_stanzas(essence: BodyEssence) -> None:
        """Remove the annotations, the labels, the metadata and the status where they are empty."""
        if "metadata" in essence:
            metadata = essence["metadata"]
            if isinstance(metadata, dict):
                empty = [key for key in ("annotations", "labels") if key in metadata and not metadata[key]]
                if empty:
                    metadata = essence["metadata"] = {key: metadata[key] for key in metadata if key not in empty}
            if not metadata:
                del essence["metadata"]
        if "status" in essence and not essence["status"]:
            del essence["status"]
