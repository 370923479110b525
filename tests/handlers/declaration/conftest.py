"""Causes as the operator would make them, with as little in them as a test needs."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ctl.client.resources import Resource
from ctl.handlers.causes.causes import ChangingCause, Reason, SpawningCause, WatchingCause
from ctl.handlers.causes.diffs import diff
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", "kopfexample", frozenset({"kex"}), namespaced=True)

Changing = Callable[..., ChangingCause]
Watching = Callable[..., WatchingCause]
Spawning = Callable[..., SpawningCause]


def _common(body: dict[str, Any] | None, resource: Resource) -> dict[str, Any]:
    return {
        "logger": logging.getLogger("test"),
        "memo": {},
        "resource": resource,
        "patch": Patch(),
        "body": Body(body or {"metadata": {"name": "obj"}}),
    }


@pytest.fixture
def resource() -> Resource:
    return KEX


@pytest.fixture
def changing() -> Changing:
    def make(
        reason: str = "update",
        *,
        old: dict[str, Any] | None = None,
        new: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        initial: bool = False,
        resource: Resource = KEX,
    ) -> ChangingCause:
        return ChangingCause(
            **_common(body if body is not None else new, resource),
            initial=initial,
            reason=Reason(reason),
            old=old,
            new=new,
            diff=diff(old, new),
        )

    return make


@pytest.fixture
def watching() -> Watching:
    def make(body: dict[str, Any] | None = None, *, resource: Resource = KEX) -> WatchingCause:
        common = _common(body, resource)
        return WatchingCause(**common, type=None, event={"type": None, "object": body or {}})

    return make


@pytest.fixture
def spawning() -> Spawning:
    def make(body: dict[str, Any] | None = None, *, resource: Resource = KEX) -> SpawningCause:
        return SpawningCause(**_common(body, resource))

    return make
