"""`ctl finalizers` shows the objects that have an operator's finalizer, and removes it when the operator is gone."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import click

from ..client.discovery import Discovery
from ..client.errors import APIError, Forbidden, MethodNotAllowed, NotFound
from ..client.objects import Object
from ..client.resources import Resource
from ..client.rest import Client
from ..controller.api.finalizers import holds
from ..controller.api.writes import GuardedWrites, KeepsChanging
from ..handlers.declaration.targets import Problem, Selector
from ..handlers.settings import PersistenceSettings
from .failures import CommandError, explained
from .options import check_namespaces, cluster_options, joined, logging_options, option
from .process import with_client

FINALIZER: Final = PersistenceSettings().finalizer
AT_ONCE: Final = 16
"""How many objects are written at the same time."""
TRIES: Final = 50
"""How often a removal is tried while others change the object."""

T = TypeVar("T")


class Removal(Enum):
    """The outcome for one object."""

    FREED = "freed"
    GONE = "gone meanwhile"


@dataclass(frozen=True)
class Search:
    """The objects to look for, and the cluster."""

    resources: tuple[str, ...]
    """Named as in decorators and kubectl; empty: all that can be listed and patched."""
    namespaces: tuple[str, ...]
    """Empty: all, and cluster-scoped objects."""
    finalizer: str
    kubeconfig: str | None
    context: str | None

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Search":
        """Read the options. Raises click.UsageError for those that contradict each other, or name no namespaces."""
        check_namespaces(given)
        namespaces = tuple(dict.fromkeys(given["namespaces"]))
        if not namespaces and not given["clusterwide"]:
            raise click.UsageError("Say where: --namespace NAME, or --all-namespaces.")
        return cls(given["resources"], namespaces, given["finalizer"], given["kubeconfig"], given["context"])


@dataclass(frozen=True)
class HeldObject:
    """An object that has the finalizer."""

    resource: Resource
    obj: Object

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted, and waits."""
        return self.obj.metadata().deletion_timestamp is not None

    def __str__(self) -> str:
        return f"{self.resource.name} {self.obj.key}" + (" (being deleted)" if self.is_leaving else "")


search_options = joined(
    option("-n", "--namespace", "namespaces", multiple=True, help="Look there; repeat."),
    option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="Look everywhere."),
    option("--finalizer", metavar="NAME", default=FINALIZER, show_default=True, help="The finalizer."),
    cluster_options,
    logging_options,
)
"""The options that select objects."""


@click.group("finalizers")
def finalizers() -> None:
    """Show the objects that wait for an operator, or free them."""


@finalizers.command("list")
@click.argument("resources", nargs=-1, metavar="[RESOURCES...]")
@search_options
def list_(**given: Any) -> None:
    """Show the objects that have the finalizer; of all resources, if none is named."""
    search = Search.of(given)
    found = _run(lambda client: _find(client, search), search)
    for one in found:
        click.echo(str(one))
    click.echo(_summary(found, search), err=True)


@finalizers.command("remove")
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCES...")
@option("--yes", is_flag=True, help="Remove the finalizer; without this option, nothing is changed.")
@search_options
def remove(**given: Any) -> None:
    """Remove the finalizer from objects of an operator that is gone.

    Other finalizers stay, also if they are added or removed at the same time. A running operator adds its own again.
    """
    search = Search.of(given)
    if not given["yes"]:
        found = _run(lambda client: _find(client, search), search)
        for one in found:
            click.echo(f"would free {one}")
        more = " Nothing is changed; to free them, add --yes." if found else ""
        click.echo(_summary(found, search) + more, err=True)
        return
    results = _run(lambda client: _free_all(client, search), search)
    for one, end in results:
        click.echo(f"{end.value if isinstance(end, Removal) else 'not freed'} {one}" + _because(end))
    ends = [end for _, end in results]
    failed = sum(not isinstance(end, Removal) for end in ends)
    counts = [f"{ends.count(end)} {end.value}" for end in Removal if ends.count(end)]
    counts += [f"{failed} not freed"] if failed else []
    click.echo(f"{len(results)} objects had {search.finalizer!r}: {', '.join(counts) or 'nothing to do'}.", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _because(end: "Removal | Exception") -> str:
    return "" if isinstance(end, Removal) else f": {end}"


def _summary(found: Collection[HeldObject], search: Search) -> str:
    leaving = sum(one.is_leaving for one in found)
    return f"{len(found)} objects have {search.finalizer!r}, {leaving} of them are being deleted."


def _run(work: Callable[[Client], Coroutine[Any, Any, T]], search: Search) -> T:
    with explained():
        return with_client(search.kubeconfig, search.context, work)


async def _find(client: Client, search: Search) -> list[HeldObject]:
    found = []
    for resource in await _resources(client, search):
        for namespace in search.namespaces or (None,):
            try:
                objects = await client.list(resource, namespace)
            except (Forbidden, NotFound, MethodNotAllowed) as exc:
                if search.resources:
                    raise
                click.echo(f"Not looked at: {resource.name}: {exc}", err=True)
                break
            found += [HeldObject(resource, obj) for obj in objects if holds(obj.metadata(), search.finalizer)]
    return sorted(found, key=str)


async def _resources(client: Client, search: Search) -> Sequence[Resource]:
    served = await Discovery(client).resources()
    if not search.resources:
        usable = [one for one in served if one.preferred and one.verbs >= {"list", "patch"}]
        unique = {(one.group, one.plural): one for one in usable if one.namespaced or not search.namespaces}
        # They are the same objects as those of the core group.
        unique.pop(("events.k8s.io", "events"), None)
        return sorted(unique.values(), key=repr)
    found: dict[Resource, None] = {}
    for name in search.resources:
        choice = Selector.parse(name).choose(served)
        if choice.problem is Problem.AMBIGUOUS:
            names = ", ".join(sorted(one.name for one in choice.candidates))
            raise CommandError(f"{name} could be any of {names}: name the group.")
        if choice.problem is not None:
            raise CommandError(
                f"The server serves no resource {name!r}; expected a plural, kind or short name, or plural.group."
            )
        for resource in choice.resources:
            if search.namespaces and not resource.namespaced:
                raise CommandError(f"{resource.name} are in no namespace: use --all-namespaces.")
            found[resource] = None
    return list(found)


async def _free_all(client: Client, search: Search) -> list[tuple[HeldObject, Removal | Exception]]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def free(one: HeldObject) -> tuple[HeldObject, Removal | Exception]:
        async with slots:
            try:
                return one, await _free(client, one, search.finalizer)
            except (APIError, KeepsChanging) as exc:
                return one, exc

    return await asyncio.gather(*(free(one) for one in await _find(client, search)))


async def _free(client: Client, one: HeldObject, finalizer: str) -> Removal:
    freed = await GuardedWrites(client, one.resource, ()).remove_finalizer(one.obj, finalizer, tries=TRIES)
    return Removal.GONE if freed is None else Removal.FREED
