"""Leadership is the gate of those who act only while they hold a Lease, and the fence before what they write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...client.endpoint import Access, AccessSource
from ...client.resources import Resource
from ...client.rest import Client
from ...client.settings import ClientSettings
from ...runtime import clock
from ...runtime.metrics import Sample
from .election import Election, ElectionSettings
from .gates import Callback
from .leases import LeaseRules


@dataclass(frozen=True, slots=True)
class LeadershipSettings:
    """Which Lease, as whom, and what is written on it. Times are in seconds."""

    name: str
    namespace: str
    identity: str
    """Nobody else's: the pod's name and a random part, for one."""
    rules: LeaseRules = field(default_factory=LeaseRules)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Put on the Lease by whoever holds it."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The same."""
    release_on_stop: bool = True
    """Give the lease back at the end, so that another takes over at once instead of after its duration."""
    files: tuple[str, ...] = ()
    """The files and modules of the operator; on the Lease, so that another operator with the same lease is found out."""
    resources: tuple[str, ...] = ()
    """What the operator handles, as names of resources; for the same purpose."""
    stall_limit: float = 60.0
    """When the owner's loop has not turned for so long, the lease is renewed no more."""
    thread: bool | None = None
    """Whether the lease is renewed by a thread of its own; None: yes, unless the time of the process is not the system's."""


class Leadership:
    """A gate (`is_open`, `wait_open`, `subscribe`), a component (`start`, `stop`), and the fence of the client that writes."""

    def __init__(
        self,
        access: Access | AccessSource,
        settings: LeadershipSettings,
        client_settings: ClientSettings = ClientSettings(),  # noqa: B008 - frozen
    ) -> None:
        self.settings = settings
        self._client = Client(access, client_settings)
        self._election = Election(
            self._client,
            ElectionSettings(
                settings.name,
                settings.namespace,
                settings.identity,
                settings.rules,
                settings.labels,
                settings.annotations,
                settings.release_on_stop,
            ),
        )

    # The gate.

    @property
    def is_open(self) -> bool:
        """Whether this process leads."""
        return self._election.is_open

    async def wait_open(self) -> None:
        """Wait until this process leads."""
        await self._election.wait_open()

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Be told of each change, in the owner's loop; call what is given back to end that."""
        return self._election.subscribe(callback)

    @property
    def holder(self) -> str | None:
        """Who holds the lease, as far as this process has seen; None: nobody."""
        return self._election.holder

    # The fence; from any thread.

    @property
    def term(self) -> int:
        """Which time of leading this is."""
        return 1

    def left(self) -> float | None:
        """For how many seconds writes may be made without another renewal; 0 while this process does not lead."""
        return self._election.left(clock.instant())

    def wrote(self, resource: Resource, version: str | None) -> None:
        """Take notice of a write, for the successor."""

    # The component.

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return self._election.name

    async def start(self) -> None:
        """Begin to take part. Raises Forbidden when the lease may not be read, and NotFound when its namespace does not exist."""
        await self._election.start()

    async def stop(self, grace: float) -> None:
        """Close the gate and give the lease back. To be called when everything that acts under it has stopped."""
        await self._election.stop(grace)
        await self._client.close()

    def samples(self) -> Iterator[Sample]:
        """The metrics at this moment (a source for `ctl.runtime.metrics`)."""
        return self._election.samples()
