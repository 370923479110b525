"""Scenarios of changes: what is told to handlers, and what is kept on objects."""

from parity.runs import Scenario
from parity.world import World


async def creation(world: World) -> None:
    await world.create("one", {"field": "a", "list": [1, 2]}, labels={"l": "1"}, annotations={"note": "x"})
    await world.handled("one", field="a")
    await world.spec("one", field="b", list=[1], more={"x": None, "y": "z"})
    await world.handled("one", field="b")
    await world.patch("one", {"metadata": {"labels": {"l": None, "m": "2"}, "annotations": {"note": "y"}}})
    await world.called("updated", count=2)
    await world.create("two", {"field": "a"})
    await world.handled("two", field="a")
    await world.delete("one")
    await world.gone("one")


async def resuming(world: World) -> None:
    for name in ("same", "changed", "deleted", "edited"):
        await world.create(name, {"field": "a"})
        await world.handled(name, field="a")
    await world.stop()
    await world.spec("changed", field="b")
    await world.create("new", {"field": "a"})
    await world.delete("deleted")
    await world.spec("edited", field="b")
    await world.delete("edited")
    await world.start()
    await world.called("resumed", "same")
    await world.handled("changed", field="b")
    await world.handled("new", field="a")
    await world.gone("deleted")
    await world.gone("edited")
    # No handler resumes twice.
    await world.spec("same", field="c")
    await world.handled("same", field="c")


async def fields(world: World) -> None:
    await world.create("one", {"field": "a", "number": 1, "nested": {"deep": {"x": 1}}})
    await world.handled("one", field="a")
    await world.spec("one", field="b", number=6)
    await world.handled("one", field="b")
    await world.spec("one", nested={"deep": {"x": 2, "y": 3}, "wide": 1})
    await world.called("nested", count=2)
    await world.spec("one", field=None)
    await world.called("removed")
    await world.spec("one", field="c", number=7)
    await world.handled("one", field="c")
    await world.patch("one", {"metadata": {"labels": {"level": "high"}}})
    await world.called("label")
    await world.patch("one", {"status": {"phase": "x"}}, subresource="status")
    await world.called("phase")
    await world.create("two", {"field": "z", "absent": False})
    await world.handled("two", field="z")


async def retries(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")


async def subhandlers(world: World) -> None:
    for parent in ("decorated", "registered", "executed", "listed"):
        await world.create(parent, {"items": ["a", "b"]}, labels={"parent": parent})
    await world.called("decorated/b", "decorated", 2)
    for parent in ("decorated", "registered", "executed", "listed"):
        await world.handled(parent, items=["a", "b"])
    await world.spec("decorated", items=["c"])
    await world.handled("decorated", items=["c"])
    await world.create("numbered", {"number": 1}, labels={"parent": "numbered"})
    await world.handled("numbered", number=1)
    await world.spec("numbered", number=7)
    await world.handled("numbered", number=7)


async def plain_resource(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.spec("one", field="b")
    await world.handled("one", field="b")
    await world.delete("one")
    await world.called("deleted")
    await world.gone("one")
    await world.create("two", {"field": "a"})
    await world.handled("two", field="a")


async def own_changes(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a", added="by the handler")
    await world.spec("one", field="b")
    await world.handled("one", field="b", added="by the handler")
    # A handler alone.
    await world.create("two", {"field": "a"}, labels={"alone": "yes"})
    await world.called("updated", "two")
    await world.handled("two", field="a", added="alone")


async def pruned(world: World) -> None:
    await world.create("one", {"known": "a"})
    await world.handled("one", known="a")


async def patches(world: World) -> None:
    for name in ("stanzas", "functions", "failing", "updated"):
        annotations = {"dropped": "x", "note": "y"}
        await world.create(name, {"field": "a"}, labels={"by": name}, annotations=annotations)
    await world.handled("stanzas", added={"nested": [1, 2]})
    await world.until("functions", lambda body: body is not None and "conditions" in body.get("status", {}))
    await world.handled("functions", list=["by a function"])
    await world.handled("failing", field="a")
    await world.handled("updated", field="a")
    await world.spec("updated", field="b")
    await world.handled("updated", was="b")
    await world.create("evented", {"field": "a"}, labels={"evented": "yes"})
    await world.until("evented", lambda body: body is not None and "from-event" in body.get("status", {}))
    await world.until(
        "evented", lambda body: body is not None and "evented-done" in body["metadata"].get("annotations", {})
    )


async def events(world: World) -> None:
    await world.create("before", {"field": "a"}, labels={"watched": ""})
    await world.start()
    await world.called("event", "before")
    await world.ready()
    await world.create("one", {"field": "a"})
    await world.spec("one", field="b")
    await world.patch("one", {"metadata": {"labels": {"watched": "yes"}}})
    await world.called("labelled")
    await world.delete("one")
    await world.called("only_deletions")
    await world.called("failing", count=4)


async def filters(world: World) -> None:
    await world.create("one", {"field": "a"}, labels={"colour": "red"}, annotations={"note": "x"})
    await world.create("two", {"field": "a"}, labels={"colour": "green"}, annotations={"note": "x", "other": ""})
    await world.create("three", {"field": "a", "rotten": True}, labels={"colour": "green", "size": "L"})
    await world.create("four", {"field": "a"})
    await world.create("five", {"field": "a"}, labels={"asked": "yes", "colour": ""})
    for name in ("one", "two", "three", "four", "five"):
        await world.handled(name, field="a")
    await world.spec("one", field="b")
    await world.handled("one", field="b")
    await world.spec("two", field="b")
    await world.delete("one")
    await world.gone("one")
    await world.delete("two")
    await world.gone("two")


async def stealth(world: World) -> None:
    await world.ready(labels={"canary": "yes"})
    await world.create("ours", {"field": "a"}, labels={"ours": "yes"})
    await world.create("theirs", {"field": "a"})
    await world.create("later", {"field": "a"})
    await world.handled("ours", field="a")
    await world.patch("later", {"metadata": {"labels": {"ours": "yes"}}})
    await world.handled("later", field="a")
    # No more of ours: what was needed for its deletion goes.
    await world.patch("ours", {"metadata": {"labels": {"ours": None}}})
    await world.until("ours", lambda body: body is not None and not body["metadata"].get("finalizers"))
    await world.spec("later", field="b")
    await world.handled("later", field="b")
    await world.delete("later")
    await world.gone("later")


async def stacked(world: World) -> None:
    await world.create("one", {"a": 1, "b": 1})
    await world.handled("one", a=1)
    await world.create("one", {"a": 1}, plural="pears")
    await world.handled("one", a=1, plural="pears")
    await world.spec("one", a=2, b=2)
    await world.handled("one", a=2)


async def lifecycles(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")


async def other_clients(world: World) -> None:
    await world.create("one", {"wider": 0, "blocking": 0, "narrower": 0, "parts": []})
    await world.handled("one", wider=0)
    await world.spec("one", wider=1, blocking=1, narrower=1)
    await world.handled("one", wider=1, blocking=1, narrower=1)
    await world.spec("one", parts=["x", "y", "z"])
    await world.handled("one", parts=["x", "y", "z"])
    await world.create("ticking", {"field": "a"}, labels={"ticks": "yes"})
    await world.called("ticks", "ticking", 5)
    await world.called("tries", "ticking", 4)
    await world.delete("one")
    await world.gone("one")


async def records(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.spec("one", field="b")
    await world.handled("one", field="b")


SCENARIOS = [
    Scenario(name="creation", play=creation, real=True),
    Scenario(name="resuming", play=resuming, real=True),
    Scenario(name="fields", play=fields),
    Scenario(name="retries", play=retries),
    Scenario(name="subhandlers", play=subhandlers),
    Scenario(name="plain_resource", play=plain_resource, plural="pears"),
    Scenario(name="own_changes", play=own_changes),
    Scenario(name="pruned", play=pruned, plural="plums", real=True),
    Scenario(name="patches", play=patches, real=True),
    Scenario(name="events", play=events, plural="pears", start=None),
    Scenario(name="filters", play=filters),
    Scenario(name="stealth", play=stealth),
    Scenario(name="stacked", play=stacked, kept=("apples", "pears")),
    Scenario(name="lifecycles", play=lifecycles),
    Scenario(name="asap", play=lifecycles),
    Scenario(name="other_clients", play=other_clients, real=True),
    Scenario(name="records", play=records),
]
