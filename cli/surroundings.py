"""What a cluster has is asked for, or else taken from what every cluster has and from manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from ..client.config.access import load_access
from ..client.discovery import Discovery
from ..client.errors import AccessError, APIError, RequestError
from ..client.resources import Resource
from ..client.rest import Client
from ..handlers.declaration.namespaces import exact_namespaces, match_namespaces
from ..sandbox.builtin import builtin_resources
from .failures import Failure, explained
from .loops import new_loop, run_in

NAMESPACES: Final = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
ANSWER_SECONDS: Final = 10.0
"""How long the server may take to say that it is there."""


@dataclass(frozen=True)
class Where:
    """Which cluster is meant, and which part of it."""

    namespaces: tuple[str, ...] = ()
    """Patterns; none: all namespaces."""
    manifests: tuple[str, ...] = ()
    """Files with definitions of resources that may not be installed yet."""
    is_offline: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    is_needed: bool = False
    """Whether nothing can be done without the cluster."""

    @property
    def has_patterns(self) -> bool:
        """Whether namespaces are served that have to be looked for."""
        return len(exact_namespaces(self.namespaces)) < len(set(self.namespaces))


@dataclass(frozen=True)
class Surroundings:
    """What is known of the cluster."""

    resources: tuple[Resource, ...]
    namespaces: tuple[str, ...] | None
    """Those that are served; None: nobody can name them."""
    notes: tuple[str, ...] = field(default=())


def surroundings(where: Where) -> Surroundings:
    """Ask the cluster for its resources, and for its namespaces if they are meant by patterns.

    Without a cluster they are those of every cluster, unless it is needed: then click.ClickException is raised.
    """
    defined = tuple(resource for path in where.manifests for resource in _defined(path))
    exact = tuple(sorted(exact_namespaces(where.namespaces)))
    reason = "No cluster was asked what it serves"
    if not where.is_offline:
        try:
            served, namespaces = run_in(new_loop(), _ask(where))
        except (AccessError, APIError, RequestError) as exc:
            if where.is_needed or where.kubeconfig or where.context:
                with explained():
                    raise
            reason = f"No cluster could be asked what it serves: {exc}".rstrip(".")
        else:
            known = {(one.group, one.plural) for one in served}
            added = tuple(one for one in defined if (one.group, one.plural) not in known)
            return Surroundings((*served, *added), tuple(sorted({*exact, *namespaces})))
    notes = (f"{reason}. Taken are the resources of every cluster, and those of --manifest.",)
    return Surroundings((*_usual(), *defined), None if where.has_patterns else exact, notes)


async def _ask(where: Where) -> tuple[Sequence[Resource], Sequence[str]]:
    async with Client(load_access(where.kubeconfig, where.context)) as client:
        await client.request("GET", "/version", retry=False, timeout=ANSWER_SECONDS)
        resources = await Discovery(client).resources(None)
        if not where.has_patterns:
            return resources, ()
        namespaces = [one.name for one in await client.list(NAMESPACES)]
        return resources, [name for name in namespaces if match_namespaces(name, where.namespaces)]


def _usual() -> Iterator[Resource]:
    """The resources that every cluster has."""
    versions: dict[str, str] = {}
    for one in builtin_resources():
        # The version that the server prefers comes first.
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
    """The resources of the definitions in a file."""
    try:
        documents = list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise Failure(f"The manifest {path} cannot be read: {exc}") from exc
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
