"""What handlers say about objects becomes posts: which objects, which type, which words."""

import logging
from collections.abc import Iterator
from typing import Any

from ...controller.events.event import REFERENCE, Post
from .object_adapters import each

_PATHS = {key: (key,) if key in {"apiVersion", "kind"} else ("metadata", key) for key in REFERENCE}
_LEVELS = (
    (logging.CRITICAL, "Fatal"),
    (logging.ERROR, "Error"),
    (logging.WARNING, "Warning"),
    (logging.INFO, "Normal"),
)


def posts_about(objs: Any, *, type: str, reason: str, message: str) -> Iterator[Post]:
    """The posts about one object or all in an iterable, however deep, those about Events left out.

    Objects are views or dicts, pykube objects, or models of the kubernetes clients; TypeError for anything else.
    """
    for manifest in each(objs, writable=False):
        found = {key: manifest.get(path) for key, path in _PATHS.items()}
        post = Post({key: value for key, value in found.items() if value}, type, reason, message)
        if not post.is_about_event:
            yield post


def describe_error(exc: BaseException | None, reason: str = "", message: str = "") -> tuple[str, str]:
    """The reason and the message of a post about an error: its class, and its text after the message."""
    if exc is None:
        return reason, str(message)
    return reason or type(exc).__name__, f"{message} {exc}" if message else str(exc)


def type_of_level(level: int) -> str:
    """The type of a post that was a log message: Debug, Normal, Warning, Error or Fatal."""
    return next((word for limit, word in _LEVELS if level >= limit), "Debug")
