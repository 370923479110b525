"""Loaded before an operator: whatever it declares as a handler writes down its calls, the same under Kopf and under ctl.

Only Kopf's public decorators are replaced, and the operator's functions stay as they are: what is registered is a wrapper that
notes what the handler was called with and how it ended.
"""

import functools
import inspect
import os

import kopf
import recording

# What exactly they see depends on when they come, and so does how often: that they come is noted, once for each object.
BACKGROUND = ("timer", "daemon", "event", "probe")
CHANGES = ("create", "update", "delete", "resume", "field")
SKIPPED = os.environ.get("NOTING_SKIPS", "").split()

_seen = set()


@functools.cache
def noted(fn):
    """The function with its calls noted; the same one for the same function, by which frameworks find repetitions."""

    def begin(kwargs):
        recording.record(fn.__name__, recording.without(kwargs, *SKIPPED))

    def end(kwargs, **outcome):
        patch = {key: value for key, value in dict(kwargs["patch"]).items() if value != {}}
        recording.record(f"{fn.__name__} ends", {"name": kwargs["name"]}, patch=patch, **outcome)

    @functools.wraps(fn)
    async def awaited(*args, **kwargs):
        begin(kwargs)
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:
            end(kwargs, raised=error)
            raise
        end(kwargs, returned=result)
        return result

    @functools.wraps(fn)
    def called(*args, **kwargs):
        begin(kwargs)
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            end(kwargs, raised=error)
            raise
        end(kwargs, returned=result)
        return result

    return awaited if inspect.iscoroutinefunction(fn) else called


@functools.cache
def sighted(fn):
    """The function, noted once for each object."""

    def note(kwargs):
        key = (fn.__name__, kwargs.get("name"))
        if key not in _seen:
            _seen.add(key)
            recording.record(fn.__name__, {"name": kwargs.get("name")})

    @functools.wraps(fn)
    async def awaited(*args, **kwargs):
        note(kwargs)
        return await fn(*args, **kwargs)

    @functools.wraps(fn)
    def called(*args, **kwargs):
        note(kwargs)
        return fn(*args, **kwargs)

    return awaited if inspect.iscoroutinefunction(fn) else called


def noting(decorator, wrapper):
    """A decorator of Kopf's that registers the wrapped function, and leaves the function's name to the function."""

    @functools.wraps(decorator)
    def declare(*args, **kwargs):
        register = decorator(*args, **kwargs)

        def decorate(fn):
            register(wrapper(fn))
            return fn

        return decorate

    return declare


if os.environ.get("NOTING_POSTS"):

    @kopf.on.startup()
    def post(settings, **_):
        settings.posting.loggers = True


for name in CHANGES:
    setattr(kopf.on, name, noting(getattr(kopf.on, name), noted))
for name in BACKGROUND:
    setattr(kopf.on, name, noting(getattr(kopf.on, name), sighted))
kopf.timer, kopf.daemon = kopf.on.timer, kopf.on.daemon
