"""One write a round: which handlers are called, with what, and what is written to the object."""

from typing import Any

import ctl
import pytest

from .world import KEX, LAST, Calls, World

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("number", [1, 3, 10])
async def test_any_number_of_create_handlers_costs_one_patch(world: World, calls: Calls, number: int) -> None:
    def declare(index: int) -> None:
        @ctl.on.create(KEX.plural, id=f"create-{index}")
        async def create(**kwargs: Any) -> None:
            calls(f"create-{index}", kwargs)

    for index in range(number):
        declare(index)
    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == [f"create-{index}" for index in range(number)]
    assert world.bodies() == [{"metadata": {"annotations": {LAST: '{"spec":{"field":"value"}}\n'}}}]
    assert [request.code for request in world.writes()] == [200]
