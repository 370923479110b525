"""`ctl finalizers` shows which objects wait for an operator's finalizer, and frees them when the operator is gone."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import click

from ..client.config.access import load_access
from ..client.discovery import Discovery
from ..client.errors import APIError, Forbidden, Invalid, LostAnswer, MethodNotAllowed, NotFound
from ..client.objects import Object
from ..client.resources import Resource
from ..client.rest import Client, PatchKind
from ..controller.api.finalizers import holds, removing
from ..handlers.declaration.targets import Problem, Selector
from ..handlers.settings import PersistenceSettings
from .failures import Failure, explained
from .loops import new_loop, run_in
from .options import Option, logging_options

FINALIZER: Final = PersistenceSettings().finalizer
AT_ONCE: Final = 16
"""How many objects are written to at the same time."""
ATTEMPTS: Final = 50
"""How often a removal is tried while others change the object's finalizers."""

T = TypeVar("T")


class End(Enum):
    """What became of one object."""

    FREED = "freed"
    GONE = "gone meanwhile"
    FREE = "freed by somebody else"


@dataclass(frozen=True)
class Search:
    """Which objects are looked for, in which cluster."""

    resources: tuple[str, ...]
    """As decorators and kubectl name them; none: all that can be listed and patched."""
    namespaces: tuple[str, ...]
    """None: all, and what is in no namespace."""
    finalizer: str
    kubeconfig: str | None
    context: str | None

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Search":
        """Read the options. Raises click.UsageError for those that contradict each other, or that leave open what is meant."""
        namespaces = tuple(dict.fromkeys(given["namespaces"]))
        if namespaces and given["clusterwide"]:
            raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
        if not namespaces and not given["clusterwide"]:
            raise click.UsageError("Say where: --namespace NAME, or --all-namespaces.")
        return cls(given["resources"], namespaces, given["finalizer"], given["kubeconfig"], given["context"])


@dataclass(frozen=True)
class Held:
    """One object that has the finalizer."""

    resource: Resource
    obj: Object

    @property
    def is_leaving(self) -> bool:
        """Whether it is to be deleted, and waits."""
        return self.obj.metadata().deletion_timestamp is not None

    def __str__(self) -> str:
        return f"{self.resource.name} {self.obj.key}" + (" (being deleted)" if self.is_leaving else "")


def search_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which objects are meant."""
    options = (
        click.option("-n", "--namespace", "namespaces", cls=Option, multiple=True, help="Look there; repeat."),
        click.option("-A", "--all-namespaces", "clusterwide", cls=Option, is_flag=True, help="Look everywhere."),
        click.option(
            "--finalizer", cls=Option, metavar="NAME", default=FINALIZER, show_default=True, help="Which one is meant."
        ),
        click.option("--kubeconfig", cls=Option, metavar="PATH", help="Use this kubeconfig."),
        click.option("--context", cls=Option, metavar="NAME", help="Use this context of the kubeconfig."),
        logging_options,
    )
    for option in reversed(options):
        fn = option(fn)
    return fn


@click.group("finalizers")
def finalizers() -> None:
    """Show which objects wait for an operator, or free them."""


@finalizers.command("list")
@click.argument("resources", nargs=-1, metavar="[RESOURCES...]")
@search_options
def list_(**given: Any) -> None:
    """Show the objects that have the finalizer; of all resources, if none is named."""
    search = Search.of(given)
    found = _carried_out(lambda client: _find(client, search), search)
    for one in found:
        click.echo(str(one))
    click.echo(_summary(found, search), err=True)


@finalizers.command("remove")
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCES...")
@click.option("--yes", cls=Option, is_flag=True, help="Do it. Without it nothing is changed.")
@search_options
def remove(**given: Any) -> None:
    """Remove the finalizer from objects whose operator is gone.

    Finalizers of others stay, also those that are added or removed at the same time. A running operator would put its own back.
    """
    search = Search.of(given)
    if not given["yes"]:
        found = _carried_out(lambda client: _find(client, search), search)
        for one in found:
            click.echo(f"would free {one}")
        more = " Nothing is changed; to free them, add --yes." if found else ""
        click.echo(_summary(found, search) + more, err=True)
        return
    results = _carried_out(lambda client: _free_all(client, search), search)
    for one, end in results:
        click.echo(f"{end.value if isinstance(end, End) else 'not freed'} {one}" + _because(end))
    ends = [end for _, end in results]
    failed = sum(not isinstance(end, End) for end in ends)
    counts = [f"{ends.count(end)} {end.value}" for end in End if ends.count(end)]
    counts += [f"{failed} not freed"] if failed else []
    click.echo(f"{len(results)} objects had {search.finalizer!r}: {', '.join(counts) or 'nothing to do'}.", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _because(end: "End | APIError") -> str:
    return "" if isinstance(end, End) else f": {end}"


def _summary(found: Collection[Held], search: Search) -> str:
    leaving = sum(one.is_leaving for one in found)
    return f"{len(found)} objects have {search.finalizer!r}, {leaving} of them are being deleted."


def _carried_out(work: Callable[[Client], Coroutine[Any, Any, T]], search: Search) -> T:
    async def carry_out() -> T:
        async with Client(load_access(search.kubeconfig, search.context)) as client:
            return await work(client)

    with explained():
        return run_in(new_loop(), carry_out())


async def _find(client: Client, search: Search) -> list[Held]:
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
            found += [Held(resource, obj) for obj in objects if holds(obj.metadata(), search.finalizer)]
    return sorted(found, key=str)


async def _resources(client: Client, search: Search) -> Sequence[Resource]:
    served = await Discovery(client).resources()
    if not search.resources:
        usable = [one for one in served if one.preferred and one.verbs >= {"list", "patch"}]
        unique = {(one.group, one.plural): one for one in usable if one.namespaced or not search.namespaces}
        # The same objects as those of the core group.
        unique.pop(("events.k8s.io", "events"), None)
        return sorted(unique.values(), key=repr)
    found: dict[Resource, None] = {}
    for name in search.resources:
        choice = Selector.parse(name).choose(served)
        if choice.problem is Problem.AMBIGUOUS:
            names = ", ".join(sorted(one.name for one in choice.candidates))
            raise Failure(f"{name} could be any of {names}: name the group.")
        if choice.problem is not None:
            raise Failure(
                f"The server serves no resource {name!r}; expected a plural, kind or short name, or plural.group."
            )
        for resource in choice.resources:
            if search.namespaces and not resource.namespaced:
                raise Failure(f"{resource.name} are in no namespace: use --all-namespaces.")
            found[resource] = None
    return list(found)


async def _free_all(client: Client, search: Search) -> list[tuple[Held, End | APIError]]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def free(one: Held) -> tuple[Held, End | APIError]:
        async with slots:
            try:
                return one, await _free(client, one, search.finalizer)
            except APIError as exc:
                return one, exc

    return await asyncio.gather(*(free(one) for one in await _find(client, search)))


async def _free(client: Client, one: Held, finalizer: str) -> End:
    """Remove the finalizer from this very object. Raises the client's errors; Invalid when others change it again and again."""
    obj: Object | None = one.obj
    attempt = 0
    while True:
        attempt += 1
        if obj is None or obj.uid != one.obj.uid:
            return End.GONE
        operations = removing(obj.metadata(), finalizer)
        if not operations:
            return End.FREE if attempt == 1 else End.FREED
        try:
            await client.patch(one.resource, obj.name, obj.namespace, operations, kind=PatchKind.JSON)
        except NotFound:
            return End.GONE
        except (Invalid, LostAnswer):
            # Its list has changed since, or it may have been done: the object itself tells.
            if attempt == ATTEMPTS:
                raise
            obj = await client.find(one.resource, obj.name, obj.namespace)
        else:
            return End.FREED
