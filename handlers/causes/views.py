"""Views show handlers an object: read-only mappings over one raw body, its stanzas and its metadata.

Views have no way to assign or delete a key: changes are made by a `Patch`. Nested values are real dicts and lists; changing
them changes this decoded copy only. Views are live: when the body shows another version, so do all its views.

A stanza that is absent, or null, looks like `{}`. Views are equal to any mapping with the same content; they are copied,
pickled, and turned into plain data by `dict()`. They may be read from any thread.
"""

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, cast

import msgspec

from .patch import lay_over

V = TypeVar("V")

Labels: TypeAlias = Mapping[str, str]
"""The labels of an object: a live view, empty when there are none."""
Annotations: TypeAlias = Mapping[str, str]
"""The annotations of an object: a live view, empty when there are none."""
BodyEssence: TypeAlias = dict[str, Any]
"""The part of a body that is compared to detect changes: without the fields that the system writes."""
RawEventType: TypeAlias = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]  # noqa: PYI061 - programs inspect its arguments
"""The type of a watch event; None for an object that was listed."""


class RawMeta(TypedDict, total=False):
    """The metadata as in the API; the fields that are used most."""

    uid: str
    name: str
    namespace: str
    generateName: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[dict[str, Any]]
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str


class RawBody(TypedDict, total=False):
    """An object as in the API; kinds have other stanzas too."""

    apiVersion: str
    kind: str
    metadata: RawMeta
    spec: dict[str, Any]
    status: dict[str, Any]


class RawEvent(TypedDict):
    """A watch event as the API sent it."""

    type: RawEventType
    object: RawBody


class ObjectReference(TypedDict, total=False):
    """A reference from one object to another. Fields that are unknown, or empty, are absent."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    namespace: str


class OwnerReference(TypedDict, total=False):
    """One entry of `metadata.ownerReferences`."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


_EMPTY: dict[str, Any] = {}


class View(Mapping[str, V], Generic[V]):
    """A read-only mapping over a dict that may be replaced by another one; each call sees one of them as a whole."""

    __slots__ = ()

    @property
    def _data(self) -> dict[str, V]:
        raise NotImplementedError

    def __getitem__(self, key: str) -> V:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default when the key is absent."""
        return self._data.get(key, default)

    def keys(self) -> KeysView[str]:
        """The current keys."""
        return self._data.keys()

    def values(self) -> ValuesView[V]:
        """The current values."""
        return self._data.values()

    def items(self) -> ItemsView[str, V]:
        """The current items."""
        return self._data.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, View):
            return bool(self._data == other._data)
        if isinstance(other, Mapping):
            return bool(self._data == dict(other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as dicts: equal by content, which changes

    def __repr__(self) -> str:
        return repr(self._data)


class _Source(msgspec.Struct, eq=False):
    """The content of one body, which all its views share.

    Views refer to this and not to each other, so that a body is freed with its last view, without a garbage collection. `later`
    gives a merge patch that is still to be laid over it; it is called at the first use of one of the `stanzas` (None: of any).
    """

    raw: dict[str, Any]
    later: Callable[[], Mapping[str, Any]] | None = None
    stanzas: frozenset[str] | None = None

    def part(self, key: str) -> dict[str, Any]:
        if self.later is not None and (self.stanzas is None or key in self.stanzas):
            self.whole()
        return self.raw.get(key) or _EMPTY

    def whole(self) -> dict[str, Any]:
        if self.later is not None:
            later, self.later = self.later, None
            for key, value in later().items():
                # Other stanzas stay the same objects: their nested values may be in use.
                self.raw |= lay_over({key: self.raw[key]} if key in self.raw else {}, {key: value})
        return self.raw


class _Stanza(View[V]):
    """A mapping in a body, looked up at each access."""

    __slots__ = ("_source",)
    _key = ""

    def __init__(self, body: "Mapping[str, Any] | _Source") -> None:
        """Show a stanza of the body; the argument is the whole body, not the stanza."""
        self._source = body if isinstance(body, _Source) else _source_of(body)

    @property
    def _data(self) -> dict[str, V]:
        return self._source.part(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ({self._key: self._data},)


class Spec(_Stanza[Any]):
    """The `spec` of a body."""

    __slots__ = ()
    _key = "spec"


class Status(_Stanza[Any]):
    """The `status` of a body."""

    __slots__ = ()
    _key = "status"


class _MetaStanza(_Stanza[str]):
    __slots__ = ()

    @property
    def _data(self) -> dict[str, str]:
        return self._source.part("metadata").get(self._key) or _EMPTY

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ({"metadata": {self._key: self._data}},)


class LabelsView(_MetaStanza):
    """The `metadata.labels` of a body."""

    __slots__ = ()
    _key = "labels"


class AnnotationsView(_MetaStanza):
    """The `metadata.annotations` of a body."""

    __slots__ = ()
    _key = "annotations"


class Meta(_Stanza[Any]):
    """The `metadata` of a body. Attributes of absent fields are None."""

    __slots__ = ("_annotations", "_labels")
    _key = "metadata"

    def __init__(self, body: Mapping[str, Any] | _Source) -> None:
        super().__init__(body)
        self._labels: LabelsView | None = None
        self._annotations: AnnotationsView | None = None

    @property
    def labels(self) -> Labels:
        """The labels; empty when there are none."""
        if self._labels is None:
            self._labels = LabelsView(self._source)
        return self._labels

    @property
    def annotations(self) -> Annotations:
        """The annotations; empty when there are none."""
        if self._annotations is None:
            self._annotations = AnnotationsView(self._source)
        return self._annotations

    # `uid` and `name` are typed as never absent: objects that were read from a cluster have both.

    @property
    def uid(self) -> str:
        """The uid: it differs from those of earlier and later objects of the name."""
        return self._data.get("uid")  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """The name."""
        return self._data.get("name")  # type: ignore[return-value]

    @property
    def namespace(self) -> str | None:
        """The namespace; None for cluster-scoped objects."""
        return self._data.get("namespace")

    @property
    def creation_timestamp(self) -> str | None:
        """When the object was created, as the API writes it."""
        return self._data.get("creationTimestamp")

    @property
    def deletion_timestamp(self) -> str | None:
        """When the object was, or will be, marked for deletion; None when it is not."""
        return self._data.get("deletionTimestamp")


_KNOWN_BY = ("apiVersion", "kind", "metadata")


class Body(View[Any]):
    """A whole object. `metadata` and `meta` are the same view."""

    __slots__ = ("_metadata", "_source", "_spec", "_status")

    def __init__(self, raw: Mapping[str, Any] | RawBody) -> None:
        """Show a decoded object, which is neither copied nor changed; the content of another body is shared."""
        # The exact type first: isinstance(..., Mapping) is slow, and bodies are made for each event.
        self._source = _Source(cast("dict[str, Any]", raw) if type(raw) is dict else _source_of(raw).whole())
        self._metadata: Meta | None = None
        self._spec: Spec | None = None
        self._status: Status | None = None

    @property
    def _data(self) -> dict[str, Any]:
        return self._source.whole()

    def stub(self) -> "Body":
        """The apiVersion, kind and metadata; the metadata is shared."""
        raw = self._source.raw
        return Body({name: raw[name] for name in _KNOWN_BY if name in raw})

    @property
    def metadata(self) -> Meta:
        """The metadata; looks empty when there is none."""
        if self._metadata is None:
            self._metadata = Meta(self._source)
        return self._metadata

    meta = metadata

    @property
    def spec(self) -> Spec:
        """The specification; looks empty when there is none."""
        if self._spec is None:
            self._spec = Spec(self._source)
        return self._spec

    @property
    def status(self) -> Status:
        """The status; looks empty when there is none."""
        if self._status is None:
            self._status = Status(self._source)
        return self._status

    def _stanzas(self) -> "tuple[Meta, Labels, Annotations, Spec, Status]":
        """All views, which are arguments of handlers: made together in a third of the time of the properties."""
        source, new = self._source, object.__new__
        meta, spec, status = self._metadata, self._spec, self._status
        if meta is None:
            meta = self._metadata = new(Meta)
            meta._source, meta._labels, meta._annotations = source, None, None
        labels, annotations = meta._labels, meta._annotations
        if labels is None:
            labels = meta._labels = new(LabelsView)
            labels._source = source
        if annotations is None:
            annotations = meta._annotations = new(AnnotationsView)
            annotations._source = source
        if spec is None:
            spec = self._spec = new(Spec)
            spec._source = source
        if status is None:
            status = self._status = new(Status)
            status._source = source
        return meta, labels, annotations, spec, status

    def _lay_over_later(self, make: Callable[[], Mapping[str, Any]], stanzas: frozenset[str] | None) -> None:
        """Lay a merge patch over it, which is made at the first use of one of these stanzas; None: of any."""
        self._source.later, self._source.stanzas = make, stanzas

    def _become(self, other: "Body") -> None:
        """Take over the content of another body, which is not used any more."""
        source, new = self._source, other._source
        source.raw, source.later, source.stanzas = new.raw, new.later, new.stanzas

    def _identity(self) -> dict[str, Any]:
        """The metadata as it is, for the fields that identify the object: nothing is laid over it first."""
        return self._source.raw.get("metadata") or _EMPTY

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source.whole(),)


def _source_of(body: Any) -> _Source:
    if isinstance(body, Body):
        return body._source
    return _Source(body if isinstance(body, dict) else dict(body))
