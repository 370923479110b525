"""The settings of an operator: every group, field and default that Kopf documents, and some of our own.

Settings are changed in startup handlers. An unknown name gives a warning with the nearest one that exists. Times are seconds.
"""

import concurrent.futures
import contextlib
import dataclasses
import difflib
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar

from .declaration.targets import SelectorMapping
from .storage.baseline import SMALLEST_LIMIT
from .storage.diffbase import AnnotationsDiffBaseStorage, DiffBaseStorage
from .storage.progress import ProgressStorage, SmartProgressStorage


def _read_number(setting: str, kind: Any, value: Any) -> Any:
    """The value of a setting of this type; text of a number, as from the environment, becomes the number.

    Raises TypeError if the type is numeric and the value is neither of the type, nor None, nor the text of a number.
    """
    kinds = set(kind.__args__) if isinstance(kind, UnionType) else {kind}
    numbers = [number for number in (int, float) if number in kinds]
    taken = (*([Real] if numbers else []), *([Iterable] if Iterable[float] in kinds else []))
    if value is None or not taken:
        return value
    if isinstance(value, str):
        for number in numbers:
            with contextlib.suppress(ValueError):
                return number(value)
    elif isinstance(value, taken):
        return value
    raise TypeError(f"{setting} takes {'a number' if numbers else 'several numbers'}; got {value!r}.")


class SettingsFrozenWarning(UserWarning):
    """A setting was changed after the operator had read it."""


class _Group:
    """Attributes, with warnings for undeclared ones, and for those that are changed too late."""

    _frozen: ClassVar[bool] = False

    def _read(self, name: str, value: Any) -> Any:
        """The value to keep for a value that is set."""
        return value

    # With this method, type checkers would allow any name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            declared = {item.name: item.type for item in dataclasses.fields(self)}
            if name not in declared and not isinstance(getattr(type(self), name, None), property):
                public = sorted(item for item in {*declared, *vars(type(self))} if not item.startswith("_"))
                close = difflib.get_close_matches(name, public, n=1)
                hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(public)}."
                warnings.warn(f"{type(self).__name__} has no setting {name!r}: it has no effect. {hint}", stacklevel=2)
            value = self._read(name, _read_number(f"{type(self).__name__}.{name}", declared.get(name), value))
            if self._frozen and name in declared and getattr(self, name) != value:
                warnings.warn(
                    f"{type(self).__name__}.{name} is changed to {value!r} after the operator has started: parts of it have "
                    f"read the old value and keep it. Change settings in a handler of @on.startup().",
                    SettingsFrozenWarning,
                    stacklevel=2,
                )
            super().__setattr__(name, value)


@dataclass
class ProcessSettings(_Group):
    """The process that runs the operator."""

    ultimate_exiting_timeout: float | None = 10 * 60
    """How long after the signal to stop the process is killed; None: never."""


@dataclass
class PostingSettings(_Group):
    """Kubernetes Events about objects."""

    enabled: bool = True
    """Post at all."""
    loggers: bool = False
    """Post the log messages of handlers too."""
    level: int = logging.INFO
    """The lowest level that is posted."""
    default_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    """Pauses between attempts to post what a handler asked for."""
    logging_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5)
    """Pauses between attempts to post a log message."""
    worker_limit: int | None = None
    """How many objects are posted about at once; None: any number."""
    idle_timeout: float = 1.0
    """How long an idle worker of one object lives."""
    reporting_component: str = "kopf"
    """`reportingComponent` and `source.component` of the events."""
    reporting_instance: str = "dev"
    """`reportingInstance` of the events."""
    event_name_prefix: str = "kopf-event-"
    """`metadata.generateName` of the events."""


@dataclass
class PeeringSettings(_Group):
    """Other operators of the same resources, known by KopfPeering objects."""

    name: str = "default"
    """The peering object."""
    stealth: bool = False
    """Do not log keep-alives."""
    priority: int = 0
    """The operator with the highest runs; the others pause."""
    lifetime: int = 60
    """How long our record is valid without a renewal."""
    mandatory: bool = False
    """Do not run without the peering object."""
    standalone: bool = False
    """Ignore other operators."""
    clusterwide: bool = False
    """Use the peering of the cluster and not of a namespace."""

    @property
    def namespaced(self) -> bool:
        """The contrary of `clusterwide`."""
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


@dataclass
class LeaderElectionSettings(_Group):
    """Which of several replicas acts, by a Lease. Not known to Kopf."""

    elect: bool | None = None
    """Act only as the leader; None: inside a cluster, if that is allowed."""
    lease_name: str | None = None
    """The Lease; None: `ctl-{service account}-{first file or module}`."""
    lease_namespace: str | None = None
    """Where the Lease is; None: the namespace of the pod, or of the credentials."""
    identity: str | None = None
    """Our name on the Lease, unique. None: the name of the machine (the pod) and a random part."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Lease."""
    lease_duration: float = 15.0
    """How long others wait for a leader that does not renew."""
    renew_deadline: float = 10.0
    """How long a leader acts without a successful renewal."""
    retry_period: float = 2.0
    """The pause between attempts to renew, and, jittered, to acquire."""
    stall_limit: float = 60.0
    """After how long a standstill of the event loop the lease is no longer renewed."""


def _by_selector() -> SelectorMapping[str]:
    return SelectorMapping()


@dataclass
class WatchingSettings(_Group):
    """Lists and watches."""

    server_timeout: float | None = None
    """When the server ends a stream; None: the server decides."""
    client_timeout: float | None = None
    """When we end a stream; None: never."""
    connect_timeout: float | None = None
    """How long to connect may take; None: as `networking` says."""
    reconnect_backoff: float = 0.1
    """The pause between two streams."""
    inactivity_timeout: float = 70.0
    """After how long without data a stream is opened anew."""
    chunk_size: int | None = None
    """How many objects a page of a list has at most; None: the client decides."""
    initial_streaming: bool = False
    """Ask for the first objects as a stream where the server can."""
    label_selectors: SelectorMapping[str] = field(default_factory=_by_selector)
    """Only objects with these labels are served, by resource; all that match apply."""
    field_selectors: SelectorMapping[str] = field(default_factory=_by_selector)
    """Only objects with these fields are served, by resource; all that match apply."""
    shard_selectors: SelectorMapping[str] = field(default_factory=_by_selector)
    """Only this shard of the objects is served, by resource; the first that matches applies."""

    def _read(self, name: str, value: Any) -> Any:
        """Plain dicts become mappings of selectors."""
        is_plain = isinstance(value, Mapping) and not isinstance(value, SelectorMapping)
        return SelectorMapping(value) if is_plain and name.endswith("_selectors") else value


_BATCHING_IS_GONE = (
    "Time-based event batching was removed. Please stop configuring it. Each change is handled when it comes: "
    "settings.queueing.batch_window has no effect."
)


@dataclass
class QueueingSettings(_Group):
    """Attempts for objects."""

    worker_limit: int | None = None
    """How many objects are handled at once; None: any number. A large backlog begins no faster than its requests get connections."""
    idle_timeout: float = 5.0
    """How long an idle worker of one object lives. Without effect here."""
    exit_timeout: float = 2.0
    """How long attempts may go on when the operator ends."""
    error_delays: Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)
    """Pauses of one object after errors of the server or of ours; the last repeats."""
    _batch_window: float = field(default=0.1, init=False, repr=False)

    @property
    def batch_window(self) -> float:
        """Deprecated: without effect."""
        warnings.warn(_BATCHING_IS_GONE, DeprecationWarning, stacklevel=2)
        return self._batch_window

    @batch_window.setter
    def batch_window(self, value: float) -> None:
        warnings.warn(_BATCHING_IS_GONE, DeprecationWarning, stacklevel=3)
        self._batch_window = value


@dataclass
class ScanningSettings(_Group):
    """Discovery of the resources of the cluster."""

    disabled: bool = False
    """Discover at the start only."""


@dataclass
class AdmissionSettings(_Group):
    """Admission webhooks."""

    server: Callable[..., Any] | None = None
    """The server or tunnel for admission requests; needed with admission handlers."""
    managed: str | None = None
    """The name of the webhook configurations that the operator manages; None: it manages none."""

    def _read(self, name: str, value: Any) -> Any:
        """Warn: these settings have no effect. Operators with admission handlers are refused."""
        if value is not None:
            warnings.warn(
                f"settings.admission.{name} has no effect: admission requests are not served yet. Leave it out.",
                stacklevel=3,
            )
        return value


@dataclass
class ExecutionSettings(_Group):
    """Calls of handlers."""

    default_backoff: float = 60
    """The pause after an arbitrary exception of a handler that has no `backoff`."""
    executor: concurrent.futures.Executor = field(default_factory=concurrent.futures.ThreadPoolExecutor)
    """Where sync handlers run."""
    _max_workers: int | None = field(default=None, init=False, repr=False)

    @property
    def max_workers(self) -> int | None:
        """How many sync handlers run at once, if it was set here.

        Setting it changes the executor. Raises ValueError below 1, TypeError for values that are no numbers, and TypeError
        for an executor without such a limit.
        """
        return self._max_workers

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        limit: int | None = _read_number("settings.execution.max_workers", int, value)
        if limit is None or limit < 1:
            raise ValueError(
                f"Can't set thread pool limit lower than 1: got {value} for settings.execution.max_workers."
            )
        if not hasattr(self.executor, "_max_workers"):
            raise TypeError(
                f"Current executor does not support `max_workers`. settings.execution.executor is a {type(self.executor).__name__}: "
                "set its number of workers where it is made."
            )
        self._max_workers = limit
        # The standard library's pools read it at each submit, and have no public way to change it.
        self.executor._max_workers = limit


@dataclass
class BackgroundSettings(_Group):
    """Daemons and timers."""

    cancellation_polling: float = 60
    """The pause between checks of a daemon that does not stop."""
    instant_exit_timeout: float | None = None
    """How long to wait for a daemon to stop by itself before other work goes on."""
    instant_exit_zero_time_cycles: int | None = 10
    """How many turns of the loop to wait for it without such a time."""


@dataclass
class NetworkingSettings(_Group):
    """Requests to the server."""

    request_timeout: float | None = 5 * 60
    """How long a request may take; None: any time."""
    connect_timeout: float | None = None
    """How long to connect may take; None: as `request_timeout` says."""
    error_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    """Pauses between attempts of one request; iterated anew for each request, may be infinite."""
    enforce_retry_after: bool = False
    """Wait exactly as long as the server says, also when our own pause is longer."""
    trust_env: bool = False
    """Take proxies and credentials from environment variables and netrc."""
    largest_answer: int | None = 2**30
    """How many bytes of JSON one answer may have, a page of a list for instance; None: any number. Not known to Kopf."""
    largest_event: int | None = 2**26
    """How many bytes of JSON one event of a watch may have; None: any number. Not known to Kopf."""


@dataclass
class PersistenceSettings(_Group):
    """The state that is kept on the objects."""

    finalizer: str = "kopf.zalando.org/KopfFinalizerMarker"
    """The finalizer that makes deletions wait."""
    progress_storage: ProgressStorage = field(default_factory=SmartProgressStorage)
    """Where the progress of handlers is kept."""
    diffbase_storage: DiffBaseStorage = field(default_factory=AnnotationsDiffBaseStorage)
    """Where the state handled last is kept."""
    largest_annotation: int | None = None
    """The most bytes of one annotation of ours; above that a digest is kept. None: as the server limits them. Not known to
    Kopf, which does not understand the digest."""
    uid_annotation: bool = False
    """Keep the uid of an object beside its diff-base, in an annotation of ours: copies of it that were made while no operator
    watched are recognized by it, and are new. Not known to Kopf, which leaves the annotation alone."""
    plain_secrets: bool = False
    """Copy the values of Secrets into the diff-base as they are, as Kopf does, instead of their hashes: then `old` shows
    values also of what was changed while no operator watched. Not known to Kopf."""
    consistency_timeout: float = 5.0
    """How long to wait for our own change to come back; 0: do not wait. Timers and daemons that are called again within it see the
    writes of their last call by other clients: the object is read. After it, the watch has delivered them."""
    checkpoint_interval: float = 1.0
    """How long the outcome of a handler may stay unwritten while the next handler runs. Not known to Kopf."""

    def _read(self, name: str, value: Any) -> Any:
        """Refuse limits that are too small for any record."""
        if name == "largest_annotation" and value is not None and value < SMALLEST_LIMIT:
            raise ValueError(
                f"settings.persistence.largest_annotation is at least {SMALLEST_LIMIT} bytes, or None; got {value!r}."
            )
        return value


@dataclass
class DiagnosticsSettings(_Group):
    """How the operator monitors itself. Not known to Kopf."""

    loop_block_limit: float | None = 0.5
    """After how long without a turn of the event loop the log names the blocking handler; None: never."""
    pool_wait_limit: float | None = 1.0
    """After how long without a free thread for a sync handler the log says so; None: never."""
    stale_limit: float = 90.0
    """After how long without data from the server a stream that once worked makes the operator not ready."""
    log_budget: int | None = 256 * 1024
    """How many characters about one object are logged within a minute (of the whole process), by loggers of handlers and by ours; None: any
    number."""
    debug_pages: bool | None = None
    """Which clients see the pages below `/debug`: True: all that reach the port; False: none; None: those on this machine (in a
    pod: by `kubectl port-forward`)."""


@dataclass
class OperatorSettings(_Group):
    """All settings of one operator, by group."""

    process: ProcessSettings = field(default_factory=ProcessSettings)
    posting: PostingSettings = field(default_factory=PostingSettings)
    peering: PeeringSettings = field(default_factory=PeeringSettings)
    watching: WatchingSettings = field(default_factory=WatchingSettings)
    queueing: QueueingSettings = field(default_factory=QueueingSettings)
    scanning: ScanningSettings = field(default_factory=ScanningSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    networking: NetworkingSettings = field(default_factory=NetworkingSettings)
    persistence: PersistenceSettings = field(default_factory=PersistenceSettings)
    leadership: LeaderElectionSettings = field(default_factory=LeaderElectionSettings)
    diagnostics: DiagnosticsSettings = field(default_factory=DiagnosticsSettings)

    @property
    def batching(self) -> QueueingSettings:
        """Deprecated: `queueing`."""
        message = (
            "Batching settings are now queueing settings. Please rename `settings.batching` -> `settings.queueing`."
        )
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.queueing

    def freeze(self) -> None:
        """Warn (SettingsFrozenWarning) of each change from now on: the operator has read settings.

        The change is still made: some settings are read at each use, and Kopf never refused one.
        """
        for item in dataclasses.fields(self):
            object.__setattr__(getattr(self, item.name), "_frozen", True)
        object.__setattr__(self, "_frozen", True)
