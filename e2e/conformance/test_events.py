"""Events of both API groups are the same objects in two shapes."""

from conformance.api import MERGE, Api
from conformance.managed import entries
from conformance.spaces import Space

NEW = "events.k8s.io/v1"


async def test_an_event_of_either_group_is_written_by_the_other(api: Api, space: Space) -> None:
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": space.name, "uid": "u"}
    new = {
        "metadata": {"name": "one"},
        "eventTime": "2026-11-21T10:00:00.000000Z",
        "reportingController": "ctl.test/tester",
        "reportingInstance": "here",
        "action": "Test",
        "reason": "Tested",
        "regarding": about,
        "note": "first",
        "type": "Normal",
    }
    made = await api.create(space.grouped(NEW, "events"), new, fieldManager="maker")
    assert (made["note"], made["regarding"]["name"], made["reportingController"]) == ("first", "one", "ctl.test/tester")
    assert "f:note" in entries(made)["maker", "Update", ""]
    old = await api.get(space.core("events", "one"))
    assert (old["message"], old["involvedObject"]["name"], old["reportingComponent"]) == (
        "first",
        "one",
        "ctl.test/tester",
    )
    assert old["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    series = {"count": 2, "lastObservedTime": "2026-11-21T10:01:00.000000Z"}
    patched = await api.merge(space.grouped(NEW, "events", "one"), {"series": series}, fieldManager="counter")
    assert patched["series"] == series
    assert (await api.get(space.core("events", "one")))["series"] == series
    refused = await api.call("PATCH", space.grouped(NEW, "events", "one"), {"note": "second"}, kind=MERGE)
    status = refused.refused(422, "Invalid")
    assert status["message"] == 'Event "one" is invalid: message: Invalid value: "second": field is immutable'
    # The older group lets everything be changed.
    assert (await api.merge(space.core("events", "one"), {"message": "second"}))["message"] == "second"


async def test_events_are_selected_in_both_groups(api: Api, space: Space) -> None:
    for name, kind, reason, about in (
        ("one", "Normal", "A", "x"),
        ("two", "Warning", "A", "y"),
        ("three", "Warning", "B", "x"),
    ):
        subject = {"kind": "ConfigMap", "name": about, "namespace": space.name, "uid": f"uid-{about}"}
        body = {"metadata": {"name": name}, "involvedObject": subject, "reason": reason, "message": "m", "type": kind}
        await api.create(space.core("events"), body)

    async def names(path: str, selector: str) -> set[str]:
        found = await api.get(path, fieldSelector=selector)
        return {item["metadata"]["name"] for item in found["items"]}

    core, new = space.core("events"), space.grouped(NEW, "events")
    assert await names(core, "involvedObject.name=x") == {"one", "three"}
    assert await names(core, "involvedObject.name=x,type=Warning") == {"three"}
    assert await names(core, "involvedObject.uid=uid-y,involvedObject.kind=ConfigMap") == {"two"}
    assert await names(core, "reason!=A") == {"three"}
    assert await names(new, "regarding.name=x") == {"one", "three"}
    assert await names(new, "reason=A,type=Warning") == {"two"}
    async with api.watch(new, fieldSelector="reason=B", resourceVersion=0) as watch:
        event = await watch.next()
    assert (event["object"]["metadata"]["name"], event["object"]["apiVersion"], event["object"]["note"]) == (
        "three",
        NEW,
        "m",
    )
