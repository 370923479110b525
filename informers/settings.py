"""The knobs of informers, with the defaults of client-go's reflector where it has them."""

from dataclasses import dataclass, field

from ..runtime.backoff import Backoff


@dataclass(frozen=True)
class InformerSettings:
    """How copies are kept. Times are in seconds."""

    stream_lists: bool = True
    """Ask for streamed initial lists first; a server that has none is listed in pages."""
    stream_patience: float = 30.0
    """How long a streamed list may bring next to nothing, and not end either, before it is given up for pages."""
    page_size: int = 500
    consistent: bool = True
    """Lists show the newest state. If false, the first may be any state that the server has cached, and later ones anything
    not older than what was seen: cheaper for servers before 1.34, which then ignore the page size."""
    watch_timeouts: tuple[float, float] = (300.0, 600.0)
    """The server ends each watch after a time taken at random between these."""
    stream_limit: float | None = None
    """After how long a watch is ended on our side, if the server has not ended it; None: never."""
    stream_pause: float = 0.0
    """The pause between the end of a watch and the next one, when nothing is wrong."""
    short_watch: float = 1.0
    """A watch that ends sooner without any event is a failure."""
    silence_limit: float = 90.0
    """The longest silence of a watch before it is opened again; shorter as soon as the server's bookmarks show a rhythm."""
    backoff: Backoff = field(default=Backoff())
    subscriber_limit: int = 5_000
    """How many deltas may wait for a subscriber before updates of one object are joined."""
    subscriber_hard_limit: int = 50_000
    """How many may wait before objects that came and went unseen are dropped altogether."""
    batch_limit: int = 1_000
    """How many deltas a subscriber is given at once, so that its work on them does not hold up the loop."""
    own_writes_limit: int = 20_000
    """How many answers of own writes are kept visible before the watch has delivered them."""

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
