"""Objects that are for no handler cost next to nothing, and lose nothing: what makes them a handler's business is noticed at once."""

import logging
from typing import Any

import pytest

import ctl

from .world import FINALIZER, KEX, LAST, Calls, World, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

MINE, THEIRS = {"mine": "yes"}, {"mine": None}
OURS = {"mine": "yes"}


class Attempts:
    """How often objects were attempted."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "ctl.controller")
        self._caplog = caplog

    def of(self, name: str) -> int:
        """Of one object, since the last question."""
        lines = [record.getMessage() for record in self._caplog.records if record.name == "ctl.controller"]
        self._caplog.clear()
        return sum(line.startswith("The attempt") and f"/{name}," in line for line in lines)


@pytest.fixture
def attempts(caplog: pytest.LogCaptureFixture) -> Attempts:
    return Attempts(caplog)


def every_kind(calls: Calls) -> None:
    """Declare handlers of all kinds but indices, for objects with a label."""

    @ctl.on.event(KEX.plural, labels=OURS)
    @ctl.on.create(KEX.plural, labels=OURS)
    @ctl.on.update(KEX.plural, labels=OURS)
    @ctl.on.field(KEX.plural, labels=OURS, field="spec.a")
    async def called(**kwargs: Any) -> None:
        calls(kwargs["reason"].value if "reason" in kwargs else "event", kwargs)

    @ctl.on.resume(KEX.plural, labels=OURS)
    async def resumed(**kwargs: Any) -> None:
        calls("resumed", kwargs)

    @ctl.on.daemon(KEX.plural, labels=OURS)
    async def runs(stopped: Any, **kwargs: Any) -> None:
        calls("begins", kwargs)
        await stopped.wait()
        calls("ends", kwargs)


async def test_what_is_for_nobody_is_not_attempted(world: World, calls: Calls, attempts: Attempts) -> None:
    every_kind(calls)
    await world.create("listed", spec={"a": 1})
    async with world.running():
        await world.create("born", spec={"a": 1}, labels={"mine": "no"})
        for value in range(3):
            await world.patch({"spec": {"a": value}}, "listed")
            await world.patch({"spec": {"a": value}}, "born")
        await rest(10)
        assert len(calls) == 0
        assert attempts.of("listed") + attempts.of("born") == 0
        assert not world.writes()
        await world.delete("born")
        await rest(10)
    assert len(calls) == 0


async def test_an_object_that_comes_to_match_is_handled_as_if_it_had_been_looked_at_before(
    world: World, calls: Calls
) -> None:
    every_kind(calls)
    await world.create("listed", spec={"a": 1})
    async with world.running():
        await world.create("born", spec={"a": 1})
        await rest(10)
        for name in ("listed", "born"):
            await world.patch({"metadata": {"labels": MINE}}, name)
            await world.handled(name)
        assert world.get("born")["metadata"]["finalizers"] == [FINALIZER]
        names = {
            name: [call for call in set(calls.names) for kwargs in calls.of(call) if kwargs["name"] == name]
            for name in ("listed", "born")
        }
        # By its handler, and by that of the field.
        assert names["born"].count("create") == names["listed"].count("create") == 2
        assert names["born"].count("begins") == names["listed"].count("begins") == 1
        assert all("event" in found for found in names.values())


async def test_an_object_that_comes_to_match_is_resumed_if_it_was_there_at_the_start(
    world: World, calls: Calls
) -> None:
    every_kind(calls)
    async with world.running():
        await world.create(labels=MINE)
        await world.handled()
        await world.patch({"metadata": {"labels": THEIRS}})
        await world.until(lambda: not world.get()["metadata"].get("finalizers"))
    async with world.running():
        await rest(10)
        assert calls.count("resumed") == 0
        await world.patch({"spec": {"a": 2}, "metadata": {"labels": MINE}})
        await world.until(lambda: calls.count("resumed") == 1 and calls.count("update") > 0)


async def test_an_object_that_matches_no_more_is_let_go(world: World, calls: Calls, attempts: Attempts) -> None:
    every_kind(calls)
    async with world.running():
        await world.create(labels=MINE)
        await world.handled()
        await world.patch({"metadata": {"labels": THEIRS}})
        await world.until(lambda: not world.get()["metadata"].get("finalizers"))
        assert calls.count("ends") == 1
        await rest(10)
        attempts.of("one")
        for value in range(3):
            await world.patch({"spec": {"a": value}})
        await rest(10)
        assert attempts.of("one") == 0
        count = calls.count("update")
        await world.patch({"metadata": {"labels": MINE}})
        await world.until(lambda: calls.count("update") > count and calls.count("begins") == 2)
        assert calls.of("update")[-1]["old"]["metadata"]["labels"] == MINE


async def test_the_finalizer_of_a_former_life_is_taken_off(world: World, calls: Calls) -> None:
    every_kind(calls)
    await world.create(finalizers=[FINALIZER])
    async with world.running():
        await world.until(lambda: not world.get()["metadata"].get("finalizers"))
    assert len(calls) == 0


async def test_what_an_event_s_handler_left_is_written_though_the_object_is_for_nobody_by_now(
    world: World, calls: Calls
) -> None:
    @ctl.on.event(KEX.plural, labels=OURS)
    async def event(patch: ctl.Patch, **_: Any) -> None:
        patch.status["seen"] = True
        patch.meta.labels["mine"] = None

    async with world.running():
        await world.create(labels=MINE)
        await world.until(lambda: world.get().get("status") == {"seen": True})
        await world.until(lambda: not world.get()["metadata"].get("labels"))


async def test_an_index_forgets_what_matches_no_more(world: World) -> None:
    known: list[list[str]] = []

    @ctl.index(KEX.plural, id="names", labels=OURS)
    async def index(name: str, **_: Any) -> Any:
        return name

    @ctl.on.event(KEX.plural, labels={"asks": "yes"})
    async def ask(names: Any, **_: Any) -> None:
        known.append(sorted(names.get(None, ())))

    async with world.running():
        await world.create("one", labels=MINE)
        await world.create("two", labels=MINE)
        await world.create("other")
        await rest(5)
        await world.patch({"metadata": {"labels": THEIRS}}, "one")
        await rest(5)
        await world.create("asking", labels={"asks": "yes"})
        await world.until(lambda: bool(known))
    assert known[0] == ["two"]


@pytest.mark.parametrize(
    "options", [{"when": lambda **_: True}, {"field": "spec"}, {"labels": {"mine": lambda _, **__: True}}]
)
async def test_one_handler_that_does_not_ask_for_labels_is_enough(
    world: World, calls: Calls, options: dict[str, Any]
) -> None:
    every_kind(calls)

    @ctl.on.create(KEX.plural, **options)
    async def other(**kwargs: Any) -> None:
        calls("other", kwargs)

    async with world.running():
        await world.create(spec={"a": 1})
        await world.handled()
    assert calls.names == ["other"]
    assert LAST in world.annotations()


async def change_status(world: World, *values: int) -> None:
    """As other controllers do it, all the time."""
    for value in values:
        await world.patch({"status": {"others": value}}, subresource="status")
        await rest(1)


async def test_a_status_that_others_change_is_no_attempt(world: World, calls: Calls, attempts: Attempts) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural, labels={"mine": ctl.ABSENT})
    @ctl.on.field(KEX.plural, field="spec.a", old=lambda *_, **__: True)
    @ctl.on.delete(KEX.plural)
    async def called(reason: Any, old: Any, new: Any, **_: Any) -> None:
        calls(reason.value, {"old": old, "new": new})

    async with world.running():
        await world.create(spec={"a": 1})
        await world.handled()
        await change_status(world, 1)
        attempts.of("one")
        await change_status(world, 2, 3, 4)
        assert attempts.of("one") == 0
        writes, count = len(world.writes()), len(calls)
        await world.patch({"status": {"others": 5}, "spec": {"a": 2}})
        await world.until(lambda: len(calls) == count + 2)
        assert {str(kwargs["old"]) + str(kwargs["new"]) for kwargs in calls.of("update")} == {
            "12",
            "{'spec': {'a': 1}}{'spec': {'a': 2}}",
        }
        await rest(5)
        assert len(world.writes()) == writes + 1
        await change_status(world, 6, 7)
        await world.delete()
        await world.gone()
    assert calls.count("delete") == 1


@pytest.mark.parametrize(
    "options",
    [{"field": "status.others"}, {"field": "status"}, {"when": lambda status, **_: status.get("others", 0) > 1}],
    ids=["field", "stanza", "function"],
)
async def test_who_looks_at_the_status_is_told_of_it(world: World, calls: Calls, options: dict[str, Any]) -> None:
    @ctl.on.update(KEX.plural, id="update")
    @ctl.on.create(KEX.plural, id="create", **options)
    async def called(name: str, **_: Any) -> None:
        calls("called", {})

    @ctl.on.update(KEX.plural, id="looks", **options)
    async def looks(status: Any, **_: Any) -> None:
        calls("looks", {"others": status.get("others")})

    async with world.running():
        await world.create()
        await change_status(world, 1, 2, 3)
        await world.patch({"metadata": {"labels": {"x": "y"}}})
        await rest(5)
    assert calls.count("looks") >= 1
    assert calls.of("looks")[-1] == {"others": 3}


async def test_raw_events_and_indices_follow_each_change(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None:
        calls("create", {})

    @ctl.on.event(KEX.plural)
    async def event(status: Any, patch: ctl.Patch, **_: Any) -> None:
        calls("event", {"others": status.get("others")})
        if status.get("others") == 3:
            patch.metadata.labels["seen"] = "yes"

    @ctl.index(KEX.plural, id="values")
    async def values(name: str, status: Any, **_: Any) -> Any:
        return {name: status.get("others")}

    @ctl.on.update(KEX.plural, labels={"seen": "yes"})
    async def update(values: Any, **_: Any) -> None:
        calls("update", {"values": list(values["one"])})

    async with world.running():
        await world.create()
        await world.handled()
        await change_status(world, 1, 2, 3)
        await world.until(lambda: calls.count("update"))
        await rest(5)
    assert [kwargs["others"] for kwargs in calls.of("event") if kwargs["others"] is not None][:3] == [1, 2, 3]
    assert calls.of("update") == [{"values": [3]}]


async def test_handlers_declared_while_the_operator_runs_look_at_what_was_settled_before(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, labels={"other": "yes"})
    @ctl.on.update(KEX.plural, field="spec.nothing")
    async def other(**_: Any) -> None:
        calls("other", {})

    async with world.running():
        await world.create()
        await change_status(world, 1, 2)

        @ctl.on.create(KEX.plural)
        async def create(**_: Any) -> None:
            calls("create", {})

        await change_status(world, 3)
        await world.until(lambda: calls.count("create"))
    assert calls.names == ["create"]


async def test_a_base_in_the_status_is_missed_when_others_remove_it(world: World, calls: Calls) -> None:
    @ctl.on.startup()
    async def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.persistence.diffbase_storage = ctl.StatusDiffBaseStorage()

    @ctl.on.create(KEX.plural)
    async def create(**_: Any) -> None:
        calls("create", {})

    def is_there() -> bool:
        return "last-handled-configuration" in world.get().get("status", {}).get("kopf", {})

    async with world.running():
        await world.create()
        await world.until(is_there)
        await change_status(world, 1, 2)
        await world.patch({"status": {"kopf": None}}, subresource="status")
        await world.until(is_there)
    assert calls.names == ["create"]
