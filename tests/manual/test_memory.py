"""The pages on in-memory containers, indices, and storages."""

import dataclasses
from typing import Any, Self

import pytest

import ctl

from ..handlers.world import KEX, LAST, PLAIN, Calls, World, rest

pytestmark = pytest.mark.virtual_time


async def test_a_memo_is_an_objects_own_and_starts_as_a_shallow_copy_of_the_operators(
    world: World, calls: Calls
) -> None:
    @ctl.on.startup()
    def fill(memo: ctl.Memo, **_: Any) -> None:
        memo.names = []
        memo["word"] = "of startup"

    @ctl.on.event(KEX.plural)
    def event(memo: ctl.Memo, name: str, **_: Any) -> None:
        memo.counter = memo.get("counter", 0) + 1
        memo.names.append(name)
        calls(name, {"counter": memo["counter"], "word": memo.word, "memo": memo})
        memo.word = f"of {name}"

    @ctl.on.cleanup()
    def cleanup(memo: ctl.Memo, **_: Any) -> None:
        calls("cleanup", dict(memo))

    async with world.running():
        await world.create("one")
        await world.create("two")
        await rest()
        await world.patch({"spec": {"field": "b"}}, "one")
        await rest()
        await world.delete("one")
        await rest()
        await world.create("one")
        await rest()
    assert [kwargs["counter"] for kwargs in calls.of("one")] == [1, 2, 3, 1]
    assert [kwargs["word"] for kwargs in calls.of("one")] == ["of startup", "of one", "of one", "of startup"]
    assert calls.of("one")[0]["memo"] is not calls.of("two")[0]["memo"]
    (end,) = calls.of("cleanup")
    assert end["word"] == "of startup"
    assert sorted(end["names"]) == ["one", "one", "one", "one", "two"]
    assert "counter" not in end


async def test_memos_of_ones_own_class_that_are_one_for_all(world: World, calls: Calls) -> None:
    @dataclasses.dataclass
    class Context:
        template: str

        def __copy__(self) -> Self:
            return self

    context = Context("Hello, {name}!")

    @ctl.on.create(KEX.plural)
    def create(memo: Context, **kwargs: Any) -> None:
        calls(memo.template.format(**kwargs), {"memo": memo})

    async with world.running(memo=context):
        await world.create("one")
        await world.create("two")
        await rest(2)
    assert sorted(calls.names) == ["Hello, one!", "Hello, two!"]
    assert all(kwargs["memo"] is context for _, kwargs in calls.made)


async def test_recipes_of_indices(world: World, calls: Calls) -> None:
    @ctl.index(PLAIN.plural, id="by_label")
    def by_label(labels: ctl.Labels, name: str, **_: Any) -> Any:
        return dict.fromkeys(labels.items(), name)

    @ctl.index(PLAIN.plural, id="names")
    def names(name: str, **_: Any) -> str:
        return name

    @ctl.index(PLAIN.plural, id="identities")
    def identities(namespace: str, name: str, **_: Any) -> tuple[str, str]:
        return namespace, name

    @ctl.index(PLAIN.plural, id="enumerated")
    def enumerated(namespace: str, name: str, **_: Any) -> Any:
        return {(namespace, name): None}

    @ctl.index(PLAIN.plural, id="whole")
    def whole(name: str, body: ctl.Body, **_: Any) -> Any:
        return {name: body}

    @ctl.index(PLAIN.plural, id="nested")
    def nested(name: str, **_: Any) -> Any:
        return {"key": {"inner": name}}

    @ctl.index(PLAIN.plural, id="nothing")
    def nothing(**_: Any) -> None: ...

    @ctl.timer(KEX.plural, interval=5)
    def tick(**kwargs: Any) -> None:
        if calls.count("tick") == 0:
            found = {name: kwargs[name] for name in ("names", "identities", "enumerated", "nested", "nothing")}
            # Functions in threads may end in any order.
            shown = {
                name: {key: sorted(values, key=str) for key, values in index.items()} for name, index in found.items()
            }
            labels = {key: sorted(values) for key, values in kwargs["by_label"].items()}
            stored, *_ = kwargs["whole"]["a"]
            calls("tick", {**shown, "by_label": labels, "field": stored.spec["field"], "types": kwargs["by_label"]})

    await world.create("a", labels={"x": "1", "y": "1"}, resource=PLAIN)
    await world.create("b", labels={"x": "1"}, resource=PLAIN)
    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("tick"))
    (seen,) = calls.of("tick")
    assert seen["by_label"] == {("x", "1"): ["a", "b"], ("y", "1"): ["a"]}
    assert seen["names"] == {None: ["a", "b"]}
    assert seen["identities"] == {None: [("default", "a"), ("default", "b")]}
    assert seen["enumerated"] == {("default", "a"): [None], ("default", "b"): [None]}
    assert seen["nested"] == {"key": [{"inner": "a"}, {"inner": "b"}]}
    assert seen["nothing"] == {}
    assert seen["field"] == "value"
    assert isinstance(seen["types"], ctl.Index)


async def test_a_transition_of_storages_handles_nothing_twice(world: World, calls: Calls) -> None:
    old = ctl.AnnotationsDiffBaseStorage(prefix="kopf.zalando.org", key="last-handled-configuration")
    new = ctl.StatusDiffBaseStorage(field="status.diff-base")
    chosen: list[Any] = [ctl.MultiDiffBaseStorage([new, old])]

    @ctl.on.startup()
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.persistence.diffbase_storage = chosen[-1]

    for decorator in (ctl.on.create, ctl.on.update):
        decorator(KEX.plural, id=decorator.__name__)(lambda reason, **_: calls(reason, {}) and None)
    chosen.append(old)
    async with world.running():
        await world.create()
        await world.handled()
    chosen.append(chosen[0])
    async with world.running():
        await rest(2)
        await world.patch({"metadata": {"labels": {"ping": "pong"}}})
        await world.until(lambda: "diff-base" in world.get().get("status", {}))
        await rest(2)
    assert LAST in world.annotations()
    chosen.append(new)
    async with world.running():
        await rest(2)
        await world.patch({"spec": {"field": "b"}})
        await rest(2)
    assert calls.names == ["create", "update", "update"]


class Records(ctl.ProgressStorage):
    """Progress in a place of the user's own, by the abstract methods alone."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], ctl.ProgressRecord] = {}

    def fetch(self, *, key: str, body: ctl.Body) -> ctl.ProgressRecord | None:
        return self.kept.get((str(body.metadata.uid), key))

    def store(self, *, key: str, record: ctl.ProgressRecord, body: ctl.Body, patch: ctl.Patch) -> None:
        self.kept[str(body.metadata.uid), key] = record

    def purge(self, *, key: str, body: ctl.Body, patch: ctl.Patch) -> None:
        self.kept.pop((str(body.metadata.uid), key), None)

    def touch(self, *, body: ctl.Body, patch: ctl.Patch, value: str | None) -> None: ...

    def clear(self, *, essence: ctl.BodyEssence) -> ctl.BodyEssence:
        return essence


class Essences(ctl.DiffBaseStorage):
    """Diff-bases in a place of the user's own."""

    def __init__(self) -> None:
        self.kept: dict[str, ctl.BodyEssence] = {}

    def fetch(self, *, body: ctl.Body) -> ctl.BodyEssence | None:
        return self.kept.get(str(body.metadata.uid))

    def store(self, *, body: ctl.Body, patch: ctl.Patch, essence: ctl.BodyEssence) -> None:
        self.kept[str(body.metadata.uid)] = essence


class Nothing(ctl.AnnotationsDiffBaseStorage):
    """Diff-bases that are not kept anywhere."""

    def fetch(self, *, body: ctl.Body) -> ctl.BodyEssence | None:
        return None

    def store(self, *, body: ctl.Body, patch: ctl.Patch, essence: ctl.BodyEssence) -> None:
        pass


async def test_where_no_diff_base_is_kept_each_change_is_a_creation(world: World, calls: Calls) -> None:
    @ctl.on.startup()
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.persistence.diffbase_storage = Nothing()

    @ctl.on.create(KEX.plural, id="create")
    def create(spec: ctl.Spec, old: Any, patch: ctl.Patch, **_: Any) -> None:
        calls("create", {"field": spec["field"], "old": old})
        patch.status["seen"] = spec["field"]

    @ctl.on.update(KEX.plural, id="update")
    def update(**_: Any) -> None:
        calls("update", {})

    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None:
        pass

    async with world.running():
        await world.create()
        await rest(5)
        await world.patch({"spec": {"field": "b"}})
        await rest(5)
        await world.patch({"metadata": {"annotations": {"by": "others"}}})
        await rest(5)
    assert [call["field"] for call in calls.of("create")] == ["value", "b", "b"]
    assert [call["old"] for call in calls.of("create")] == [None, None, None]
    assert calls.of("update") == []
    assert world.get()["status"] == {"seen": "b"}
    assert world.annotations() == {"by": "others"}


async def test_storages_of_ones_own(world: World, calls: Calls) -> None:
    records, essences = Records(), Essences()

    @ctl.on.startup()
    def configure(settings: ctl.OperatorSettings, **_: Any) -> None:
        settings.persistence.progress_storage = records
        settings.persistence.diffbase_storage = essences

    @ctl.on.create(KEX.plural, id="create")
    def create(retry: int, **_: Any) -> None:
        calls("create", {"retry": retry, "kept": [key for _, key in records.kept]})
        if retry < 2:
            raise ctl.TemporaryError("later", delay=10)

    @ctl.on.update(KEX.plural, id="update")
    def update(old: Any, **_: Any) -> None:
        calls("update", {"old": old["spec"]})

    async with world.running():
        await world.create()
        await rest(5)
        assert calls.of("create") == [{"retry": 0, "kept": []}]
        assert [key for _, key in records.kept] == ["create"]
    async with world.running():
        await rest(30)
        assert [kwargs["retry"] for kwargs in calls.of("create")] == [0, 1, 2]
        assert records.kept == {}
        await world.patch({"spec": {"field": "b"}})
        await rest(5)
    assert calls.of("update") == [{"old": {"field": "value"}}]
    assert world.annotations() == {}
