"""The settings of informers, with the defaults of client-go's reflector where it has them."""

from dataclasses import dataclass, field

from ..runtime.backoff import Backoff


@dataclass(frozen=True)
class InformerSettings:
    """The settings of informers. Times are in seconds."""

    stream_lists: bool = True
    """Request streamed initial lists first; servers without them are listed in pages."""
    stream_patience: float = 30.0
    """How long a streamed list may make no progress before it is replaced by pages."""
    page_size: int = 500
    consistent: bool = True
    """Lists show the newest state. If false, the first list may show any state that the server has cached, and later ones any state that
    is not older than ours: cheaper for servers before 1.34, which then ignore the page size."""
    watch_timeouts: tuple[float, float] = (300.0, 600.0)
    """The server ends each watch after a random time between these."""
    stream_limit: float | None = None
    """After how long we end a watch, if the server has not; None: never."""
    stream_pause: float = 0.0
    """The pause between two watches, when nothing has failed."""
    short_watch: float = 1.0
    """A watch that ends sooner without any event is a failure."""
    silence_limit: float = 90.0
    """The longest silence of a watch before it is opened again; shorter once the interval of the server's bookmarks is known."""
    backoff: Backoff = field(default=Backoff())
    subscriber_limit: int = 5_000
    """How many deltas may wait for a subscriber before updates of one object are joined."""
    subscriber_hard_limit: int = 50_000
    """How many may wait before objects that came and went are left out."""
    batch_limit: int = 1_000
    """The longest batch of deltas, so that a subscriber's work on it does not block the loop for long."""
    own_writes_limit: int = 20_000
    """How many own writes are visible before the watch has delivered them."""

    def __post_init__(self) -> None:
        low, high = self.watch_timeouts
        if not 0 < low <= high:
            raise ValueError(f"watch_timeouts must be two times, the smaller first; got {self.watch_timeouts}.")
        if min(self.page_size, self.batch_limit, self.subscriber_limit, self.own_writes_limit) < 1:
            raise ValueError("The limits and the page size of informers must be at least 1.")
        if self.subscriber_hard_limit < self.subscriber_limit:
            raise ValueError(
                f"subscriber_hard_limit ({self.subscriber_hard_limit}) must not be below subscriber_limit ({self.subscriber_limit})."
            )
