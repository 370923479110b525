"""Handlers inside of handlers: declared or executed, nested, with retries of their own."""

from typing import Any

import pytest

import ctl

from .world import KEX, PLAIN, Calls, P, World

pytestmark = pytest.mark.virtual_time


async def test_subhandlers_run_as_a_part_of_their_parent_and_one_write_is_made(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="parent")
    async def parent(spec: Any, **_: Any) -> str:
        calls("parent", {})

        for item in spec["items"]:

            @ctl.subhandler(id=item)
            async def sub(item: str = item, **_: Any) -> str:
                calls(f"sub-{item}", {})
                return item.upper()

        return "parent's"

    async with world.running():
        await world.create(spec={"items": ["a", "b"]})
        body = await world.handled()
    assert calls.names == ["parent", "sub-a", "sub-b"]
    assert body["status"] == {"parent": "parent's", "parent/a": "A", "parent/b": "B"}
    assert len(world.writes()) == 2


async def test_a_parent_is_called_again_until_its_subhandlers_are_done(world: World, calls: Calls) -> None:
    @ctl.on.create(PLAIN.plural, id="cr")
    async def parent(retry: int, **_: Any) -> str:
        calls("cr", {"retry": retry})

        @ctl.subhandler(id="a")
        async def first(**_: Any) -> dict[str, int]:
            calls("cr/a", {})
            return {"x": 1}

        @ctl.subhandler(id="b")
        async def second(retry: int, **_: Any) -> None:
            calls("cr/b", {"retry": retry})
            if retry < 2:
                raise ctl.TemporaryError("later", delay=10)

        return "done"

    async with world.running():
        await world.create(resource=PLAIN)
        await world.until(lambda: world.writes(PLAIN))
        annotations = world.bodies(PLAIN)[0]["metadata"]["annotations"]
        assert set(annotations) == {f"{P}/cr", f"{P}/cr.a", f"{P}/cr.b"}
        assert '"message":"None","subrefs":["cr/a","cr/b"]' in annotations[f"{P}/cr"]
        assert world.bodies(PLAIN)[0]["status"] == {"cr/a": {"x": 1}}
        body = await world.handled(resource=PLAIN)
    assert calls.names == ["cr", "cr/a", "cr/b", "cr", "cr/b", "cr", "cr/b"]
    assert [call["retry"] for call in calls.of("cr")] == [0, 1, 2]
    assert [call["retry"] for call in calls.of("cr/b")] == [0, 1, 2]
    assert body["status"] == {"cr/a": {"x": 1}, "cr": "done"}
    last = world.bodies(PLAIN)[-1]["metadata"]["annotations"]
    assert {key: last[key] for key in annotations} == dict.fromkeys(annotations)
    # The results, the records, and the results again: one write for each round.
    assert len(world.writes(PLAIN)) == 3


async def test_subhandlers_nest(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="top")
    async def top(**_: Any) -> None:
        @ctl.subhandler(id="mid")
        async def mid(**_: Any) -> None:
            @ctl.subhandler(id="low")
            async def low(retry: int, **_: Any) -> None:
                calls("low", {"retry": retry})
                if not retry:
                    raise ctl.TemporaryError("later", delay=10)

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("top") is not None)
        assert world.record("top")["subrefs"] == ["top/mid", "top/mid/low"]
        assert world.record("top.mid")["subrefs"] == ["top/mid/low"]
        await world.handled()
    assert [call["retry"] for call in calls.of("low")] == [0, 1]
    assert world.is_clean()


async def test_a_restarted_operator_goes_on_with_the_subhandlers_that_are_left(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="top")
    async def top(**_: Any) -> None:
        @ctl.subhandler(id="done")
        def done(**_: Any) -> None:
            calls("done", {})

        @ctl.subhandler(id="late")
        async def late(retry: int, **_: Any) -> None:
            calls("late", {})
            if not retry:
                raise ctl.TemporaryError("later", delay=10)

    async with world.running():
        await world.create()
        await world.until(lambda: world.record("top") is not None)
    async with world.running():
        await world.handled()
    assert calls.names == ["done", "late", "late"]


async def test_execute_runs_functions_at_once(world: World, calls: Calls) -> None:
    async def named(patch: ctl.Patch, status: Any, **_: Any) -> str:
        calls("named", {"phase": status["phase"]})
        patch.status["phase"] = "named"
        return "n"

    async def listed(status: Any, **_: Any) -> None:
        calls("listed", {"phase": status["phase"]})

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(patch: ctl.Patch, **_: Any) -> None:
        calls("before", {})
        patch.status["phase"] = "parent"
        await ctl.execute(fns={"x": named})
        await ctl.execute(fns=[listed])
        calls("after", {"phase": patch.status["phase"]})

    async with world.running():
        await world.create()
        body = await world.handled()
    # Each sees what the ones before it want, its parent included, and the last one wins.
    assert calls.made == [
        ("before", {}),
        ("named", {"phase": "parent"}),
        ("listed", {"phase": "named"}),
        ("after", {"phase": "named"}),
    ]
    assert body["status"] == {"phase": "named", "parent/x": "n"}


async def test_execute_lets_the_handler_end_where_it_stands_while_something_is_unfinished(
    world: World, calls: Calls
) -> None:
    async def late(retry: int, **_: Any) -> None:
        calls("late", {"retry": retry})
        if not retry:
            raise ctl.TemporaryError("later", delay=10)

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> str:
        await ctl.execute(fns={"late": late})
        calls("after", {})
        return "done"

    async with world.running():
        await world.create()
        body = await world.handled()
    assert calls.names == ["late", "late", "after"]
    assert body["status"] == {"parent": "done"}


async def test_a_subhandler_that_fails_for_good_does_not_fail_its_parent(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        calls("parent", {})

        @ctl.subhandler(id="bad")
        async def bad(**_: Any) -> None:
            calls("bad", {})
            raise ctl.PermanentError("no")

        @ctl.subhandler(id="good")
        async def good(**_: Any) -> None:
            calls("good", {})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["parent", "bad", "good"]


async def test_execute_belongs_into_a_change_handler(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural, id="event")
    async def event(**_: Any) -> None:
        try:
            await ctl.execute(fns=[event])
        except LookupError as exc:
            calls(str(exc), {})

    async with world.running():
        await world.create()
        await world.until(lambda: len(calls))
    assert calls.names[0] == "execute() runs sub-handlers of a running change handler; no such handler runs here."


async def test_only_one_source_of_subhandlers_can_be_given() -> None:
    with pytest.raises(TypeError, match="Only one of"):
        await ctl.execute(fns=[], handlers=[])


@pytest.mark.parametrize(("source", "error"), [("fns", ValueError), ("handlers", TypeError)])
async def test_one_function_is_no_list_of_subhandlers(source: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"execute\({source}=\.\.\.\) takes a list of .*; got <function test_one"):
        await ctl.execute(**{source: test_one_function_is_no_list_of_subhandlers})


async def test_the_log_counts_parents_only(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        for name in ("a", "b"):

            @ctl.subhandler(id=name)
            async def child(**_: Any) -> None: ...

    with caplog.at_level("INFO"):
        async with world.running():
            await world.create()
            await world.handled()
    assert "Creation is processed: 1 succeeded; 0 failed." in caplog.messages


async def test_a_deletion_with_a_pending_change_tells_the_difference(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None: ...

    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(**_: Any) -> None: ...

    with caplog.at_level("DEBUG"):
        async with world.running():
            await world.create()
            await world.handled()
        await world.patch({"spec": {"field": "changed"}})
        await world.delete()
        async with world.running():
            await world.gone()
    assert "Deletion diff: (('change', ('spec', 'field'), 'value', 'changed'),)" in caplog.messages
    assert not [text for text in caplog.messages if text.startswith("Creation diff")]


async def test_functions_that_are_executed_leave_the_declared_ones_for_the_end(world: World, calls: Calls) -> None:
    def noting(name: str) -> Any:
        return lambda **_: calls(name, {})

    @ctl.on.create(KEX.plural, id="parent")
    async def parent(**_: Any) -> None:
        ctl.register(noting("declared"), id="declared")
        await ctl.execute(fns={"given": noting("given")})
        calls("parent", {})

    async with world.running():
        await world.create()
        await world.handled()
    assert calls.names == ["given", "parent", "declared"]
