import pytest

from ..ports import free_port


@pytest.fixture
def unused_port() -> int:
    """A loopback port on which nobody listens."""
    return free_port()
