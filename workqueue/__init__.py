"""`ctl.workqueue`: order, fairness and time for keys; knows nothing of Kubernetes."""

from .delaying import DelayingQueue
from .ledger import Ageing
from .queue import Queue, ShutDown
from .ratelimit import Bucket, Capped, Exponential, FastSlow, MaxOf, RateLimiter
from .ratelimited import RateLimitingQueue

__all__ = [
    "Ageing",
    "Bucket",
    "Capped",
    "DelayingQueue",
    "Exponential",
    "FastSlow",
    "MaxOf",
    "Queue",
    "RateLimiter",
    "RateLimitingQueue",
    "ShutDown",
]
