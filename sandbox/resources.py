"""A `Resource` is a kind as the server serves it: names, scope, verbs and the rules of its writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from .shapes import Shape, builtin_shape
from .status import Subject

READ_VERBS: Final = ("get", "list", "watch")
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Traits:
    """How writes of a kind differ from each other on the real server."""

    # Kinds with a generation count it from 1; the others have none.
    generation: bool = False
    # A PUT without a resourceVersion overwrites (else it is invalid).
    unconditional: bool = True
    # A PUT of a missing object creates it.
    create_on_update: bool = False
    # A DELETE answers with the object instead of a Status.
    returns_deleted: bool = False
    # Names are path segments (`system:node`) instead of DNS subdomains.
    free_names: bool = False
    # Names are single DNS labels.
    label_names: bool = False
    # Changed annotations count as a changed spec (Deployments).
    annotations_count: bool = False


@dataclass(frozen=True)
class Column:
    """One column of what `kubectl get` prints: `path` is a dotted path into the object."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Resource:
    """One kind in one served version. Objects of all versions of a kind share one bucket."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_status: bool = False
    custom: bool = False
    traits: Traits = field(default_factory=Traits)
    columns: tuple[Column, ...] = ()
    # Field labels that a field selector may name besides metadata.name and metadata.namespace.
    fields: tuple[str, ...] = ()
    # Of custom kinds: the structural schema of the version, and how its objects merge.
    schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    custom_shape: Shape | None = field(default=None, compare=False, repr=False)

    @cached_property
    def shape(self) -> Shape:
        """How objects of this version merge and who owns what in them."""
        return self.custom_shape or builtin_shape(self.group_version, self.kind)

    @cached_property
    def bucket(self) -> str:
        """The name under which the objects are stored: one for all versions."""
        if self.plural == "events" and self.group == "events.k8s.io":
            return "events"
        return self.subject.resource

    @cached_property
    def subject(self) -> Subject:
        """The words for errors about this resource."""
        return Subject(self.group, self.plural, self.kind)

    @cached_property
    def group_version(self) -> str:
        """`group/version`, or the version alone in the core group: an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def prefix(self) -> bytes:
        """The encoded head that turns a stored body into a whole object of this version."""
        if self.custom:
            return f'{{"apiVersion":"{self.group_version}","kind":"{self.kind}",'.encode()
        return f'{{"kind":"{self.kind}","apiVersion":"{self.group_version}",'.encode()


def object_key(namespace: str | None, name: str) -> str:
    """The key inside a bucket; its order is the order of lists (as etcd's: by path)."""
    return f"{namespace}/{name}" if namespace else name
