"""The pytest plugin for tests of operators: it adds the mark `virtual_time` (see `ctl.testing.time`).

Use it with `pytest -p ctl.testing.plugin` or by `pytest_plugins = ["ctl.testing.plugin"]` in the root's conftest. It works through
pytest-asyncio (1.5 or newer), whose modes and loop scopes stay as they are configured.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

import pytest

from ..runtime import clock
from .time import VirtualTimeLoop


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, for `--strict-markers` and `pytest --markers`."""
    config.addinivalue_line(
        "markers",
        "virtual_time(start=None): run the test in an event loop whose clock jumps over waiting; "
        "`start` is the wall time at the beginning (ISO 8601, the present by default).",
    )


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the event loop of one test by its marks (a hook of pytest-asyncio)."""
    mark = item.get_closest_marker("virtual_time")
    if mark is None:
        return {"asyncio": asyncio.new_event_loop}
    unknown = sorted(set(mark.kwargs) - {"start"})
    if unknown or mark.args:
        raise pytest.UsageError(
            f"{item.nodeid}: the mark virtual_time takes `start=` alone; it was given {mark.args or unknown}."
        )
    return {"virtual": partial(VirtualTimeLoop, start=_moment(mark.kwargs.get("start")))}


def _moment(start: str | datetime | None) -> datetime | None:
    return clock.parse(start) if isinstance(start, str) else start
