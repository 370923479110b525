"""`ctl freeze` pauses running operators for a while, and `ctl resume` ends the pause, both by a record in their peering
objects.

The records are those of `kopf freeze` and `kopf resume`: each toolkit can end the pauses of the other.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

import click

from ..client.discovery import Discovery
from ..client.rest import Client
from ..controller.peering.records import own_identity, write_records
from ..controller.peering.rules import GROUPS, Peer, PeeringScope, relevant
from ..handlers.declaration.namespaces import exact_namespaces, match_namespaces
from ..runtime import clock
from .failures import CommandError, explained
from .options import NAMESPACES, check_namespaces, cluster_options, joined, logging_options, option
from .process import with_client
from .run import DEV_PRIORITY

logger = logging.getLogger("ctl.peering")

FREEZE_PRIORITY: Final = 100
"""The default priority of a freeze: far above the default of operators."""


@dataclass(frozen=True)
class Target:
    """The author of the record, the peering objects, and the cluster."""

    name: str
    clusterwide: bool
    namespaces: tuple[str, ...]
    identity: str
    kubeconfig: str | None
    context: str | None

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Target":
        """Read the options. Raises click.UsageError for those that contradict each other."""
        check_namespaces(given)
        namespaces = tuple(given["namespaces"])
        if not namespaces and not given["clusterwide"]:
            logger.warning(
                "Neither --all-namespaces nor --namespace is given: the operators that serve all namespaces are meant, as "
                "with Kopf. Say which of the two is meant: a later release will ask for it."
            )
        return cls(
            given["peering"],
            not namespaces,
            namespaces,
            given["id"] or own_identity(manual=True),
            given["kubeconfig"],
            given["context"],
        )

    def __str__(self) -> str:
        where = "cluster-wide" if self.clusterwide else f"in {', '.join(self.namespaces)}"
        return f"{self.name!r} {where}"


peering_options = joined(
    option(
        "-n", "--namespace", "namespaces", multiple=True, help="The operators that serve this namespace only; repeat."
    ),
    option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="The operators that serve all namespaces."),
    option("-i", "--id", metavar="ID", help="The name of the record.  [default: $POD_ID or user@host]"),
    option(
        "-P",
        "--peering",
        legacy=["PEERING_NAME"],
        required=True,
        metavar="NAME",
        help="The name of the peering objects.",
    ),
    cluster_options,
)
"""The options for the author of the record and for the peering objects."""


@click.command("freeze")
@peering_options
@option("-p", "--priority", type=int, help=f"Pause operators up to this priority.  [default: {FREEZE_PRIORITY}]")
@option("--dev", is_flag=True, help=f"The same as --priority={DEV_PRIORITY}.")
@option("-t", "--lifetime", type=int, required=True, metavar="SECONDS", help="Pause them for at most this time.")
@option("-m", "--message", metavar="TEXT", help="The reason. It is not stored (as with Kopf).")
@logging_options
def freeze(**given: Any) -> None:
    """Pause running operators until `ctl resume`, or for SECONDS."""
    default = DEV_PRIORITY if given["dev"] else FREEZE_PRIORITY
    priority = default if given["priority"] is None else given["priority"]
    target = Target.of(given)
    peer = Peer(target.identity, clock.now(), priority, given["lifetime"])
    if peer.lifetime <= 0:
        _resume(target)
        return
    frozen = _write(target, peer)
    if not frozen:
        raise CommandError(
            f"Nothing is frozen: there is no peering object {target}. Operators look for it where they were told to "
            "(--peering), else by the name 'default'. Create it: docs/peering.md shows how."
        )
    for scope in frozen:
        logger.info(
            "Operators up to the priority %d are frozen by %s for %d s: %r %s.",
            priority,
            target.identity,
            peer.lifetime,
            target.name,
            scope,
        )


@click.command("resume")
@peering_options
@logging_options
def resume(**given: Any) -> None:
    """End the pause of `ctl freeze`."""
    _resume(Target.of(given))


def _resume(target: Target) -> None:
    resumed = _write(target, None)
    if not resumed:
        logger.warning("There is no peering object %s, so nothing was frozen there.", target)
    for scope in resumed:
        logger.info("Operators are not frozen by %s any more: %r %s.", target.identity, target.name, scope)


def _write(target: Target, peer: Peer | None) -> list[PeeringScope]:
    """Write the record, or remove it, in each peering object that exists; returns where."""
    record = None if peer is None else peer.record()

    async def write(client: Client) -> list[PeeringScope]:
        return [
            scope
            for scope in await _scopes(target, client)
            if await write_records(client, scope, target.name, {target.identity: record}, channel="request")
        ]

    with explained():
        try:
            return with_client(target.kubeconfig, target.context, write)
        except TimeoutError as exc:
            raise CommandError(
                f"The peering object {target} could not be written: the server does not answer."
            ) from exc


async def _scopes(target: Target, client: Client) -> list[PeeringScope]:
    resources = sorted(relevant(await Discovery(client).resources(GROUPS), clusterwide=target.clusterwide), key=repr)
    if target.clusterwide:
        return [PeeringScope(resource, None) for resource in resources]
    patterns = frozenset(target.namespaces)
    names = set(exact_namespaces(patterns))
    if len(names) < len(patterns):
        names |= {obj.name for obj in await client.list(NAMESPACES) if match_namespaces(obj.name, patterns)}
    return [PeeringScope(resource, name) for resource in resources for name in sorted(names)]
