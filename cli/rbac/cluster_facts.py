"""Finds out which resources and namespaces a cluster has: from the server, or else from built-in lists and manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from ...client.discovery import Discovery
from ...client.errors import AccessError, APIError, RequestError
from ...client.resources import Resource
from ...client.rest import Client
from ...handlers.declaration.namespaces import exact_namespaces, match_namespaces
from ...sandbox.builtin import builtin_resources
from ..failures import CommandError, explained
from ..options import NAMESPACES
from ..process import with_client

ANSWER_SECONDS: Final = 10.0
"""How long the server may take for its first answer."""


@dataclass(frozen=True)
class ClusterQuery:
    """Which cluster is meant, and which of its namespaces."""

    namespaces: tuple[str, ...] = ()
    """Names and patterns; empty: all namespaces."""
    manifests: tuple[str, ...] = ()
    """Files with CustomResourceDefinitions, which may not be installed yet."""
    is_offline: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    is_needed: bool = False
    """Whether the command fails without the cluster."""

    @property
    def has_patterns(self) -> bool:
        """Whether namespaces are given by patterns, so that they must be listed."""
        return len(exact_namespaces(self.namespaces)) < len(set(self.namespaces))


@dataclass(frozen=True)
class ClusterFacts:
    """The resources and namespaces of the cluster, as far as they are known."""

    resources: tuple[Resource, ...]
    namespaces: tuple[str, ...] | None
    """The served namespaces; None: they are given by patterns, and no cluster was asked."""
    notes: tuple[str, ...] = field(default=())


def cluster_facts(query: ClusterQuery) -> ClusterFacts:
    """Ask the cluster for its resources, and for its namespaces if patterns are given.

    Without a cluster, the result has the resources that every cluster has. Raises click.ClickException if `is_needed`.
    """
    defined = tuple(resource for path in query.manifests for resource in _defined(path))
    exact = tuple(sorted(exact_namespaces(query.namespaces)))
    reason = "No cluster was asked what it serves"
    if not query.is_offline:
        try:
            served, namespaces = with_client(query.kubeconfig, query.context, partial(_ask, query))
        except (AccessError, APIError, RequestError) as exc:
            if query.is_needed or query.kubeconfig or query.context:
                with explained():
                    raise
            reason = f"No cluster could be asked what it serves: {exc}".rstrip(".")
        else:
            known = {(one.group, one.plural) for one in served}
            added = tuple(one for one in defined if (one.group, one.plural) not in known)
            return ClusterFacts((*served, *added), tuple(sorted({*exact, *namespaces})))
    notes = (f"{reason}. Used instead: the resources that every cluster has, and those of --manifest.",)
    return ClusterFacts((*_usual(), *defined), None if query.has_patterns else exact, notes)


async def _ask(query: ClusterQuery, client: Client) -> tuple[Sequence[Resource], Sequence[str]]:
    await client.request("GET", "/version", retry=False, timeout=ANSWER_SECONDS)
    resources = await Discovery(client).resources(None)
    if not query.has_patterns:
        return resources, ()
    namespaces = [one.name for one in await client.list(NAMESPACES)]
    return resources, [name for name in namespaces if match_namespaces(name, query.namespaces)]


def _usual() -> Iterator[Resource]:
    """The resources that every cluster has."""
    versions: dict[str, str] = {}
    for one in builtin_resources():
        # The preferred version comes first.
        version = versions.setdefault(one.group, one.version)
        yield Resource(
            one.group,
            one.version,
            one.plural,
            one.kind,
            one.singular,
            frozenset(one.short_names),
            frozenset(one.categories),
            frozenset({"status"} if one.has_status else ()),
            one.namespaced,
            one.version == version,
            frozenset(one.verbs),
        )


def _defined(path: str) -> Iterator[Resource]:
    """The resources that the definitions in a file define."""
    try:
        documents = list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise CommandError(f"The manifest {path} cannot be read: {exc}") from exc
    for body in documents:
        if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
            yield from _versions(body.get("spec") or {})


def _versions(spec: dict[str, Any]) -> Iterator[Resource]:
    names = spec["names"]
    served = [version for version in spec["versions"] if version.get("served")]
    for number, version in enumerate(served):
        yield Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            names.get("singular") or names["kind"].lower(),
            frozenset(names.get("shortNames") or ()),
            frozenset(names.get("categories") or ()),
            frozenset(version.get("subresources") or ()),
            spec.get("scope") == "Namespaced",
            number == 0,
        )
