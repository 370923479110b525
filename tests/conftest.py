"""Tests run in virtual time where they are marked so: see `ctl.testing.time`."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["ctl.testing.plugin"]


def pytest_configure() -> None:
    """Programs that tests start can be interrupted, and properties hold on slow machines too."""
    # A shell's job in the background has inherited that it cannot be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("ctl", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ctl")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """What a command configured in this process ends with its test."""
    root, loop_logger = logging.getLogger(), logging.getLogger("asyncio")
    before = root.level, list(root.handlers), loop_logger.level
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    loop_logger.setLevel(before[2])
