"""The rules of peering: which of several operators acts and which pause is decided by the records that they leave in one object.

Pure: times and chance are arguments. The records, their defaults and the decision are Kopf's. Records are judged by the wall clocks of
their writers, so machines of peers need clocks that agree within a few seconds; that is the protocol, and cannot be mended on one side.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from ...client.resources import Resource
from ...runtime.clock import iso, parse

GROUPS = ("kopf.dev", "zalando.org")
"""The API groups of peering objects: today's, and that of Kopf before 1.29."""
CLUSTER_PLURAL, NAMESPACED_PLURAL = "clusterkopfpeerings", "kopfpeerings"
DEFAULT_LIFETIME = 60
"""How long a record counts that does not say, in seconds."""
LETTERS = "abcdefhijklmnopqrstuvwxyz0123456789"
"""What the random part of an identity is made of."""

_LONGEST = 10**9
_EVER = datetime.max.replace(tzinfo=UTC)
_LOCAL = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


@dataclass(frozen=True, slots=True, repr=False)
class Peer:
    """One operator's record."""

    identity: str
    lastseen: datetime
    priority: int = 0
    lifetime: int = DEFAULT_LIFETIME
    """For how many seconds since `lastseen` the record counts."""
    lease: str = ""
    """The Lease by which the replicas of one operator elect their leader, as `namespace/name`; a key of ours that Kopf ignores."""

    @classmethod
    def from_record(cls, identity: str, record: Mapping[str, Any], now: datetime) -> "Peer":
        """Read a record. What is absent or unreadable has its default, which for `lastseen` is now; unknown keys are ignored."""
        lease = record.get("lease")
        return cls(
            identity=identity,
            lastseen=_moment(record.get("lastseen"), now),
            priority=_whole(record.get("priority"), 0),
            lifetime=_whole(record.get("lifetime"), DEFAULT_LIFETIME),
            lease=lease if isinstance(lease, str) else "",
        )

    @property
    def deadline(self) -> datetime:
        """When the record ends to count."""
        try:
            return self.lastseen + timedelta(seconds=self.lifetime)
        except OverflowError:
            return _EVER

    def is_dead(self, now: datetime) -> bool:
        """Whether the record counts no more."""
        return self.deadline <= now

    def record(self) -> dict[str, Any]:
        """The record as it is written."""
        found: dict[str, Any] = {
            "priority": self.priority,
            "lifetime": self.lifetime,
            "lastseen": iso(self.lastseen),
        }
        return {**found, "lease": self.lease} if self.lease else found

    def __repr__(self) -> str:
        said = ", ".join(f"{key}={value!r}" for key, value in self.record().items())
        return f"<Peer {self.identity}: {said}>"


def read_peers(status: object, now: datetime) -> list[Peer]:
    """The peers that the `status` of a peering object has records of, in its order. What is no record is passed over."""
    if not isinstance(status, Mapping):
        return []
    return [
        Peer.from_record(str(identity), record, now)
        for identity, record in status.items()
        if isinstance(record, Mapping)
    ]


def _whole(value: object, default: int) -> int:
    if isinstance(value, int | float | str):
        try:
            return max(-_LONGEST, min(int(value), _LONGEST))
        except (ValueError, OverflowError):
            return default
    return default


def _moment(value: object, default: datetime) -> datetime:
    try:
        return parse(value) if isinstance(value, str) else default
    except (ValueError, OverflowError):
        return default


class Standing(Enum):
    """Where an operator stands among its peers."""

    FREE = "free"
    """It acts."""
    YIELDING = "yielding"
    """It pauses for those of a higher priority."""
    CONFLICTING = "conflicting"
    """It pauses, and so do others of the same priority, until all but one have gone: nobody can say who is meant to act."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an operator makes of the records of one object."""

    standing: Standing = Standing.FREE
    blockers: tuple[Peer, ...] = ()
    """For whom it pauses, in the order of the records."""
    until: datetime | None = None
    """When the first of them ends to count unless it is heard of again: time to judge anew."""
    obsolete: tuple[str, ...] = ()
    """The records to be removed by whoever acts: of the dead, and of former leaders among our own replicas."""

    @property
    def is_paused(self) -> bool:
        """Whether the operator is to pause."""
        return self.standing is not Standing.FREE


@dataclass(frozen=True, slots=True)
class Rank:
    """What an operator is among its peers. `identity` must be nobody else's."""

    identity: str
    priority: int = 0
    lease: str = ""
    """As in `Peer`; empty: there are no replicas who know of each other."""
    shares: bool = False
    """Those of the same priority are no conflict: each serves a part of the objects (shards)."""


def judge(peers: Iterable[Peer], own: Rank, now: datetime) -> Verdict:
    """Decide whether to pause. Our own record counts for nothing, nor do the dead, nor the replicas that share our Lease."""
    others = [peer for peer in peers if peer.identity != own.identity]
    replicas = [peer for peer in others if own.lease and peer.lease == own.lease]
    obsolete = tuple(peer.identity for peer in others if peer.is_dead(now) or peer in replicas)
    foreign = [peer for peer in others if not peer.is_dead(now) and peer not in replicas]
    higher = tuple(peer for peer in foreign if peer.priority > own.priority)
    equal = tuple(peer for peer in foreign if peer.priority == own.priority and not own.shares)
    blockers = higher or equal
    if not blockers:
        return Verdict(obsolete=obsolete)
    standing = Standing.YIELDING if higher else Standing.CONFLICTING
    return Verdict(standing, blockers, min(peer.deadline for peer in blockers), obsolete)


def keep_alive_pause(lifetime: int, chance: float) -> float:
    """Seconds between two writings of a record: 5 to 10 less than it counts for, and one at least. `chance` is in [0, 1)."""
    return max(1.0, lifetime - 5.0 - 5.0 * chance)


@dataclass(frozen=True, slots=True)
class PeeringOptions:
    """Which peering object, and as whom."""

    rank: Rank
    name: str = "default"
    lifetime: int = DEFAULT_LIFETIME
    """How long our record counts, in seconds, if it is not renewed."""
    clusterwide: bool = True
    """By ClusterKopfPeering; else by KopfPeering in each namespace that is served."""
    mandatory: bool = False
    """Pause where there is no peering object."""
    stealth: bool = False
    """Do not log keep-alives."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a peering object is; its name is that of the options."""

    resource: Resource
    namespace: str | None

    def __str__(self) -> str:
        return "cluster-wide" if self.namespace is None else f"in {self.namespace!r}"


def relevant(resources: Iterable[Resource], *, clusterwide: bool) -> frozenset[Resource]:
    """The resources of peering objects among those that the cluster has, of all groups, for the one scope or the other."""
    plural = CLUSTER_PLURAL if clusterwide else NAMESPACED_PLURAL
    return frozenset(
        resource
        for resource in resources
        if (resource.group, resource.version, resource.plural) in {(group, "v1", plural) for group in GROUPS}
    )


def lacking(found: Collection[tuple[Resource, str | None, bool]], namespaces: Collection[str | None]) -> list[str]:
    """The places without a peering object in any group, by name, given for each collection whether it has one."""
    served = {namespace for _, namespace, exists in found if exists}
    return sorted("the cluster" if place is None else place for place in namespaces if place not in served)


def compose_identity(user: str, host: str, moment: datetime, letters: str) -> str:
    """The identity of a running operator: nobody else's, and telling people who it is. The time is in UTC."""
    return f"{manual_identity(user, host)}/{moment.astimezone(UTC):%Y%m%d%H%M%S}/{letters}"


def manual_identity(user: str, host: str) -> str:
    """The identity of a person, the same each time: what was frozen can be resumed."""
    return f"{user}@{host}"


def choose_host(names: Sequence[str], fallback: str) -> str:
    """The name that says most about a machine: the first with a domain, else the first that is not every machine's."""
    telling = [name for name in names if name and not _is_local(name)]
    chosen = next((name for name in telling if "." in name), telling[0] if telling else fallback)
    for suffix in (".localdomain", ".local"):
        chosen = chosen.removesuffix(suffix)
    return chosen


def _is_local(name: str) -> bool:
    is_address = name.replace(".", "").isdigit() or ":" in name
    return is_address or name.lower() in _LOCAL or name.lower().startswith("localhost.")
