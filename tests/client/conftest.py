"""The tests run over the client's fast path, or without it: as with another version of aiohttp, or with AIOHTTP_SESSIONS=1 in the environment."""

import os

import aiohttp
import pytest

from ctl.client.wire import http1

from ..ports import free_port

IS_FAST = http1.is_tested(aiohttp.__version__) and not os.environ.get("AIOHTTP_SESSIONS")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fast_path(reason): what aiohttp's public sessions do not promise, and why")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("fast_path")
        if mark is not None and not IS_FAST:
            item.add_marker(pytest.mark.skip(reason=f"without the fast path: {mark.args[0]}"))


@pytest.fixture(autouse=True)
def _fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "is_used", lambda: IS_FAST)


@pytest.fixture
def unused_port() -> int:
    """A loopback port on which nobody listens."""
    return free_port()
