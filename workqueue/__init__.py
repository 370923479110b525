"""`ctl.workqueue`: order, fairness and time for keys; knows nothing of Kubernetes."""

from ..runtime.token_bucket import TokenBucket
from .delaying import DelayingQueue
from .ledger import Ageing
from .queue import Queue, ShutDown
from .ratelimit import Capped, Exponential, FastSlow, MaxOf, RateLimiter
from .ratelimited import RateLimitingQueue

__all__ = [
    "Ageing",
    "Capped",
    "DelayingQueue",
    "Exponential",
    "FastSlow",
    "MaxOf",
    "Queue",
    "RateLimiter",
    "RateLimitingQueue",
    "ShutDown",
    "TokenBucket",
]
