"""The registry knows which resources are served right now: the built-in ones and those of CRDs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from .resources import Column, Resource, Traits
from .shapes import custom_shape

CUSTOM_TRAITS: Final = Traits(generation=True, unconditional=False)
CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_VERSION: Final = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts the preferred version first: v2, v1, v1beta2, v1alpha1, then others by name."""
    found = _VERSION.match(version)
    if not found:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), version)


def _column(column: Mapping[str, Any]) -> Column:
    return Column(
        name=column.get("name", ""),
        path=column.get("jsonPath", "").lstrip("."),
        type=column.get("type", "string"),
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
    )


def resources_of(definition: Mapping[str, Any]) -> list[Resource]:
    """The resources that a CustomResourceDefinition serves, one for each served version, preferred first."""
    spec = definition["spec"]
    names = spec["names"]
    fields = {
        field["jsonPath"].lstrip(".") for version in spec["versions"] for field in version.get("selectableFields", ())
    }
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_rank(version["name"]))
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec.get("scope") != "Cluster",
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            verbs=CUSTOM_VERBS,
            has_status=(version.get("subresources") or {}).get("status") is not None,
            custom=True,
            traits=CUSTOM_TRAITS,
            columns=tuple(_column(column) for column in version.get("additionalPrinterColumns", ())),
            fields=tuple(sorted(fields)),
            schema=_schema(version),
            custom_shape=custom_shape(_schema(version)),
        )
        for version in served
    ]


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


class Registry:
    """Served resources by group, version and plural. Groups keep the order in which they appeared."""

    def __init__(self, builtins: Iterable[Resource]) -> None:
        self._served: dict[tuple[str, str, str], Resource] = {}
        # Invariant: the resources of each installed definition, by the definition's name.
        self._custom: dict[str, list[Resource]] = {}
        # Invariant: the (group, version) pairs of all served resources.
        self._pairs: set[tuple[str, str]] = set()
        for resource in builtins:
            self._served[resource.group, resource.version, resource.plural] = resource
        self._count()

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a path, None when it is not served."""
        return self._served.get((group, version, plural))

    def serves(self, group: str, version: str) -> bool:
        """Whether anything is served in a group and version."""
        return (group, version) in self._pairs

    def of_bucket(self, bucket: str) -> Resource:
        """A resource (any version) whose objects are in a bucket. Raises KeyError."""
        found = next((resource for resource in self if resource.bucket == bucket), None)
        if found is None:
            raise KeyError(bucket)
        return found

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a manifest's apiVersion and kind."""
        return next((found for found in self if found.kind == kind and found.group_version == api_version), None)

    def storages(self) -> list[Resource]:
        """One resource for each bucket of objects (any of its versions)."""
        return list({found.bucket: found for found in self if "list" in found.verbs}.values())

    def versions(self, group: str) -> list[str]:
        """The served versions of a group, preferred first; empty when the group is unknown."""
        found = list(dict.fromkeys(resource.version for resource in self if resource.group == group))
        custom = any(resource.custom for resource in self if resource.group == group)
        return sorted(found, key=version_rank) if custom else found

    def groups(self) -> list[str]:
        """The named groups in the order of discovery; the core group is not among them."""
        return list(dict.fromkeys(resource.group for resource in self if resource.group))

    def install(self, definition: Mapping[str, Any]) -> None:
        """Serve what a CustomResourceDefinition says, instead of what it said before."""
        name = definition["metadata"]["name"]
        self.uninstall(name)
        self._custom[name] = resources_of(definition)
        for resource in self._custom[name]:
            self._served[resource.group, resource.version, resource.plural] = resource
        self._count()

    def uninstall(self, name: str) -> None:
        """Serve a definition's resources no more; nothing happens when they were not served."""
        for resource in self._custom.pop(name, ()):
            self._served.pop((resource.group, resource.version, resource.plural), None)
        self._count()

    def _count(self) -> None:
        self._pairs = {(resource.group, resource.version) for resource in self}
