"""Whole operators in the loop of a test."""

from collections.abc import AsyncIterator

import pytest

from .pages import Site
from .world import Calls, World, a_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server, a user, and a registry that the decorators use."""
    async with a_world() as found:
        yield found


@pytest.fixture
def calls() -> Calls:
    """What handlers were called with."""
    return Calls()


@pytest.fixture
def site() -> Site:
    """Where the pages of an operator are."""
    return Site()
