"""The rules of peering: the records of several operators in one object decide which of them acts and which pause.

Pure: times and randomness are arguments. Records, defaults and decision are Kopf's. A record bears the wall-clock time of its writer, so
the clocks of peers must agree within a few seconds; that is the protocol.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ...client.resources import Resource
from ...runtime.clock import iso, parse

GROUPS = ("kopf.dev", "zalando.org")
"""The API groups of peering objects: today's, and that of Kopf before 1.29."""
CLUSTER_PLURAL, NAMESPACED_PLURAL = "clusterkopfpeerings", "kopfpeerings"
DEFAULT_LIFETIME = 60
"""Seconds for which a record without a lifetime counts."""
LETTERS = "abcdefhijklmnopqrstuvwxyz0123456789"
"""The characters of the random part of an identity."""

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
    """Seconds since `lastseen` for which the record counts."""
    lease: str = ""
    """The Lease by which the replicas of one operator elect their leader, as `namespace/name`; a key of ours that Kopf ignores."""

    @classmethod
    def from_record(cls, identity: str, record: Mapping[str, Any], now: datetime) -> "Peer":
        """Read a record. Absent or unreadable fields have their defaults (`lastseen`: now); unknown keys are ignored."""
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
        """The end of the record's lifetime."""
        try:
            return self.lastseen + timedelta(seconds=self.lifetime)
        except OverflowError:
            return _EVER

    def is_dead(self, now: datetime) -> bool:
        """Whether the record's lifetime is over."""
        return self.deadline <= now

    def record(self) -> dict[str, Any]:
        """The record as it is written."""
        found: dict[str, Any] = {"priority": self.priority, "lifetime": self.lifetime, "lastseen": iso(self.lastseen)}
        return {**found, "lease": self.lease} if self.lease else found

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value!r}" for key, value in self.record().items())
        return f"<Peer {self.identity}: {fields}>"


def read_peers(status: object, now: datetime) -> list[Peer]:
    """The peers with a record in the `status` of a peering object, in its order. Values that are no records are skipped."""
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


@dataclass(frozen=True, slots=True)
class PeeringDecision:
    """Whether an operator pauses, by the records of one object."""

    blockers: tuple[Peer, ...] = ()
    """The peers for which it pauses, in the order of the records; empty: it acts."""
    is_conflict: bool = False
    """Whether they have the same priority, so that they pause as well, until all but one are gone."""
    until: datetime | None = None
    """The first deadline of a blocker: then a new decision is due."""
    obsolete: tuple[str, ...] = ()
    """The records that the acting operator removes: of dead peers, and of former leaders among its own replicas."""


@dataclass(frozen=True, slots=True)
class Rank:
    """An operator among its peers. `identity` must be unique."""

    identity: str
    priority: int = 0
    lease: str = ""
    """As in `Peer`; empty: replicas do not know of each other."""
    shares: bool = False
    """Peers of the same priority are no conflict: each handles a part of the objects (shards)."""


def decide(peers: Iterable[Peer], own: Rank, now: datetime) -> PeeringDecision:
    """Decide whether to pause. Our own record, dead peers, and replicas that share our Lease do not count."""
    others = [peer for peer in peers if peer.identity != own.identity]
    replicas = [peer for peer in others if own.lease and peer.lease == own.lease]
    obsolete = tuple(peer.identity for peer in others if peer.is_dead(now) or peer in replicas)
    foreign = [peer for peer in others if not peer.is_dead(now) and peer not in replicas]
    higher = tuple(peer for peer in foreign if peer.priority > own.priority)
    equal = tuple(peer for peer in foreign if peer.priority == own.priority and not own.shares)
    blockers = higher or equal
    until = min((peer.deadline for peer in blockers), default=None)
    return PeeringDecision(blockers, bool(equal and not higher), until, obsolete)


def keep_alive_pause(lifetime: int, chance: float) -> float:
    """Seconds between two keep-alives: the lifetime less 5 to 10, and 1 at least. `chance` is in [0, 1)."""
    return max(1.0, lifetime - 5.0 - 5.0 * chance)


@dataclass(frozen=True, slots=True)
class PeeringOptions:
    """The peering object, and the operator's record in it."""

    rank: Rank
    name: str = "default"
    lifetime: int = DEFAULT_LIFETIME
    """Seconds for which our record counts without a keep-alive."""
    clusterwide: bool = True
    """Use ClusterKopfPeering; else KopfPeering in each served namespace."""
    mandatory: bool = False
    """Pause where there is no peering object."""
    stealth: bool = False
    """Do not log keep-alives."""


@dataclass(frozen=True, slots=True)
class PeeringScope:
    """The resource and the namespace (None: the cluster) of a peering object; the options have its name."""

    resource: Resource
    namespace: str | None

    def __str__(self) -> str:
        return "cluster-wide" if self.namespace is None else f"in {self.namespace!r}"


def relevant(resources: Iterable[Resource], *, clusterwide: bool) -> frozenset[Resource]:
    """The peering resources among those of the cluster, of all groups: cluster-wide or namespaced."""
    plural = CLUSTER_PLURAL if clusterwide else NAMESPACED_PLURAL
    return frozenset(
        resource
        for resource in resources
        if (resource.group, resource.version, resource.plural) in {(group, "v1", plural) for group in GROUPS}
    )


def compose_identity(user: str, host: str, moment: datetime, letters: str) -> str:
    """The identity of a running operator: unique and readable. The time is in UTC."""
    return f"{manual_identity(user, host)}/{moment.astimezone(UTC):%Y%m%d%H%M%S}/{letters}"


def manual_identity(user: str, host: str) -> str:
    """The identity of a person, the same each time, so that `ctl resume` finds the record of `ctl freeze`."""
    return f"{user}@{host}"


def choose_host(names: Sequence[str], fallback: str) -> str:
    """The best name of a machine: the first with a domain, else the first that is not a local one."""
    telling = [name for name in names if name and not _is_local(name)]
    chosen = next((name for name in telling if "." in name), telling[0] if telling else fallback)
    for suffix in (".localdomain", ".local"):
        chosen = chosen.removesuffix(suffix)
    return chosen


def _is_local(name: str) -> bool:
    is_address = name.replace(".", "").isdigit() or ":" in name
    return is_address or name.lower() in _LOCAL or name.lower().startswith("localhost.")
