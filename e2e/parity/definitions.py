"""The custom resources that the compared operators handle."""

from conformance.api import Body
from conformance.spaces import definition

GROUP = "parity.ctl.test"

_SUBRESOURCES: Body = {"status": {}}


def _version(name: str, schema: Body, **more: object) -> Body:
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}


_OPEN: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_PRUNED: Body = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"known": {"type": "string"}}},
        "status": {"type": "object", "properties": {"known": {"type": "string"}}},
    },
}


def _names(plural: str, kind: str, **more: object) -> Body:
    return {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **more}


DEFINED: tuple[Body, ...] = (
    # With a status subresource, short names and a category.
    definition(
        GROUP,
        "apples",
        "Apple",
        names=_names("apples", "Apple", shortNames=["apl"], categories=["fruits"]),
        versions=[_version("v1", _OPEN, subresources=_SUBRESOURCES)],
    ),
    # Without any subresource; of two versions.
    definition(
        GROUP,
        "pears",
        "Pear",
        names=_names("pears", "Pear", shortNames=["prs"], categories=["fruits"]),
        versions=[_version("v1", _OPEN), {**_version("v1beta1", _OPEN), "storage": False}],
    ),
    # Of a schema that prunes what it does not know.
    definition(
        GROUP,
        "plums",
        "Plum",
        names=_names("plums", "Plum"),
        versions=[_version("v1", _PRUNED, subresources=_SUBRESOURCES)],
    ),
    # Of the whole cluster.
    definition(
        GROUP,
        "orchards",
        "Orchard",
        scope="Cluster",
        names=_names("orchards", "Orchard"),
        versions=[_version("v1", _OPEN, subresources=_SUBRESOURCES)],
    ),
    # Of the same plural as one of another group.
    definition("other." + GROUP, "plums", "Plum", names=_names("plums", "Plum"), versions=[_version("v1", _OPEN)]),
)
"""Installed on a server once a session."""

KINDS = {
    "apples": (f"{GROUP}/v1", "Apple"),
    "pears": (f"{GROUP}/v1", "Pear"),
    "plums": (f"{GROUP}/v1", "Plum"),
    "orchards": (f"{GROUP}/v1", "Orchard"),
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "pods": ("v1", "Pod"),
    "namespaces": ("v1", "Namespace"),
    "services": ("v1", "Service"),
    "events": ("v1", "Event"),
}
"""Plural -> API version and kind."""

CLUSTERED = frozenset({"orchards", "namespaces"})


def address(plural: str, namespace: str, *rest: str) -> str:
    """Where the objects of a kind are."""
    version = KINDS[plural][0]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if plural in CLUSTERED else f"/namespaces/{namespace}"
    return "/".join((f"{root}{scope}/{plural}", *rest))
