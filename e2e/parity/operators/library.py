"""A package of somebody else that builds on kopf."""

import functools
from typing import Any

import kopf
from kopf.on import create, update


class Result(dict):
    """What handlers of this package give."""


class Busy(kopf.TemporaryError):
    """An error of this package's own."""


def keeps(*names: str) -> Any:
    """Declare a function for all that happens."""

    def decorate(fn: Any) -> Any:
        tries = []

        @functools.wraps(fn)
        def once_more(**kwargs: Any) -> Any:
            if not tries:
                tries.append(1)
                raise Busy("busy", delay=0.1)
            assert isinstance(kwargs["body"], kopf.Body)
            assert isinstance(kwargs["patch"], kopf.Patch)
            return fn(**kwargs)

        create(*names)(update(*names)(once_more))
        return fn

    return decorate
