"""A resource served by the API, and the URLs of its objects."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlencode

_is_plain = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_NO_SEGMENTS = frozenset({"", ".", ".."})


class Key(NamedTuple):
    """Which object within one resource: its namespace (None when cluster-scoped) and its name."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class Resource:
    """A kind of objects as the API serves it.

    Two resources are equal when group, version and plural are; the rest is what discovery said and may be unknown.
    A resource iterates as those three strings, so that `on.event(*resource)` works (Kopf behaviour).
    """

    group: str
    version: str
    plural: str
    kind: str | None = None
    singular: str | None = None
    shortcuts: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()
    namespaced: bool | None = None
    preferred: bool = True
    verbs: frozenset[str] = field(default_factory=frozenset)

    def __hash__(self) -> int:
        # Asked many times for each event; namesakes in other groups are few.
        return hash(self.plural)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (self.group, self.version, self.plural) == (other.group, other.version, other.plural)

    def __repr__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".strip(".")

    def __iter__(self) -> Iterator[str]:
        return iter((self.group, self.version, self.plural))

    @property
    def name(self) -> str:
        """`plural.group`, or the plural alone in the core group: the name of the resource's CRD."""
        return f"{self.plural}.{self.group}".strip(".")

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the objects: `group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}".strip("/")

    def get_url(
        self,
        *,
        server: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> str:
        """The URL of a collection, of an object or of its subresource; relative to the host without a server.

        Raises ValueError when the parts contradict each other: a namespace for a cluster-scoped resource, a name of a
        namespaced object without its namespace, or a subresource without a name; and for a part that would lead to another
        URL: an empty one, `.`, `..`, and whatever contains `/` or `%` (client-go refuses the same).
        """
        if subresource is not None and name is None:
            raise ValueError(
                f"Subresources can be used only with specific resources by their name. The name of a {self!r} is missing "
                f"beside {subresource!r}."
            )
        if self.namespaced is False and namespace is not None:
            raise ValueError(
                f"Specific namespaces are not supported for cluster-scoped resources. {self!r} was asked for in {namespace!r}."
            )
        if self.namespaced and namespace is None and name is not None:
            raise ValueError(
                f"Specific namespaces are required for specific namespaced resources. That of {name!r} ({self!r}) is missing."
            )
        root, plural = _parts(self)
        url = root if namespace is None else f"{root}/namespaces/{self._segment('namespace', namespace)}"
        url = f"{url}/{plural}" if name is None else f"{url}/{plural}/{self._segment('object name', name)}"
        if subresource is not None:
            url += f"/{self._segment('subresource', subresource)}"
        if server:
            url = server.rstrip("/") + url
        return f"{url}?{urlencode(params)}" if params else url

    def get_object_url(self, *, namespace: str | None, name: str, subresource: str | None = None) -> str:
        """The URL of one object or of its subresource. Raises ValueError as `get_url` does, and for a name that is None."""
        # With None, the deletion of one object would be that of the collection.
        given: object = name
        if given is None:
            self._checked("object name", name)
        return self.get_url(namespace=namespace, name=name, subresource=subresource)

    def _segment(self, what: str, text: str) -> str:
        # All names that the API accepts are plain.
        given: object = text  # types are not checked at run time
        if isinstance(given, str) and given not in _NO_SEGMENTS and _is_plain(given):
            return given
        return quote(self._checked(what, text), safe="")

    def _checked(self, what: str, text: str) -> str:
        """The text, if it stays one segment of a path."""
        given: object = text  # types are not checked at run time
        if isinstance(given, str) and given not in _NO_SEGMENTS and "/" not in given and "%" not in given:
            return given
        raise ValueError(
            f"A request for {self!r} has no usable {what}: expected a text that is not empty, '.' or '..', and has no '/' and no '%'; "
            f"found {text!r}. Nothing was sent. Correct the {what}, or leave such objects out."
        )


@lru_cache(maxsize=1024)
def _parts(resource: Resource) -> tuple[str, str]:
    """The parts of a URL that are the same for all objects: where the resources of its group and version are, and its plural name."""
    parts = ["/api" if not resource.group and resource.version == "v1" else "/apis"]
    parts += [resource._segment("group", resource.group)] if resource.group else []
    root = "/".join([*parts, resource._segment("version", resource.version)])
    return root, resource._segment("plural name", resource.plural)
