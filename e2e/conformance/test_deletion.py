"""Deleting: answers, finalizers, preconditions, collections."""

import datetime as dt
from typing import Any

import pytest
from conformance.api import JSON, MERGE, Api, version
from conformance.spaces import Space, configmap

KEEP = "ctl.test/keep"


async def test_a_deletion_answers_with_a_status(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    assert await api.delete(space.widgets("one")) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "one", "group": space.group, "kind": "widgets", "uid": made["metadata"]["uid"]},
    }
    (await api.call("GET", space.widgets("one"))).refused(404, "NotFound")


async def test_a_deletion_of_a_builtin_answers_with_a_status(api: Api, space: Space) -> None:
    made = await api.create(space.core("configmaps"), configmap("one"))
    status = await api.delete(space.core("configmaps", "one"))
    assert status["status"] == "Success"
    assert status["details"] == {"name": "one", "kind": "configmaps", "uid": made["metadata"]["uid"]}


async def test_a_finalizer_turns_the_deletion_into_a_mark(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    marked = await api.delete(space.widgets("one"))
    assert marked["kind"] == "Widget"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    when = dt.datetime.fromisoformat(marked["metadata"]["deletionTimestamp"])
    assert abs(dt.datetime.now(dt.UTC) - when) < dt.timedelta(seconds=30)
    assert marked["metadata"]["finalizers"] == [KEEP]
    assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert version(marked) > version(made)
    assert await api.get(space.widgets("one")) == marked


async def test_deleting_again_changes_nothing(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    marked = await api.delete(space.widgets("one"))
    assert await api.delete(space.widgets("one")) == marked


async def test_an_object_in_deletion_is_still_patched(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP], spec={"a": 1}))
    marked = await api.delete(space.widgets("one"))
    patched = await api.merge(space.widgets("one"), {"spec": {"a": 2}, "metadata": {"labels": {"l": "1"}}})
    assert patched["spec"] == {"a": 2}
    assert patched["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    stated = await api.merge(space.widgets("one", "status"), {"status": {"s": 1}})
    assert stated["status"] == {"s": 1}
    assert version(stated) > version(patched) > version(marked)


@pytest.mark.parametrize("finalizers", [[KEEP, "ctl.test/new"], ["ctl.test/new"]])
async def test_an_object_in_deletion_takes_no_new_finalizer(api: Api, space: Space, finalizers: list[str]) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    await api.delete(space.widgets("one"))
    answer = await api.call("PATCH", space.widgets("one"), {"metadata": {"finalizers": finalizers}}, kind=MERGE)
    status = answer.refused(422, "Invalid")
    assert status["message"] == (
        f'Widget.{space.group} "one" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object '
        'is being deleted, found new finalizers []string{"ctl.test/new"}'
    )
    assert status["details"]["causes"][0]["reason"] == "FieldValueForbidden"
    assert status["details"]["causes"][0]["field"] == "metadata.finalizers"


async def test_the_last_finalizer_takes_the_object_with_it(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP, "ctl.test/other"], spec={"a": 1}))
    marked = await api.delete(space.widgets("one"))
    async with api.watch(space.widgets(), resourceVersion=version(marked)) as watch:
        one_left = await api.merge(space.widgets("one"), {"metadata": {"finalizers": [KEEP]}})
        released = await api.merge(space.widgets("one"), {"metadata": {"finalizers": []}})
        events = await watch.take(2)
    assert one_left["metadata"]["finalizers"] == [KEEP]
    # The answer shows what was asked for; nothing of it was stored before the object went.
    assert "finalizers" not in released["metadata"]
    assert version(released) == version(one_left)
    (await api.call("GET", space.widgets("one"))).refused(404, "NotFound")
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert events[1]["object"]["metadata"]["finalizers"] == [KEEP]
    assert events[1]["object"]["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    assert version(events[1]["object"]) > version(one_left)


async def test_the_last_finalizer_goes_with_other_changes(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP], annotations={"a": "1"}))
    await api.delete(space.widgets("one"))
    released = await api.merge(space.widgets("one"), {"metadata": {"finalizers": None, "annotations": {"a": None}}})
    assert "annotations" not in released["metadata"]
    (await api.call("GET", space.widgets("one"))).refused(404, "NotFound")


async def test_a_finalizer_is_removed_by_a_guarded_json_patch(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=["ctl.test/other", KEEP]))
    await api.delete(space.widgets("one"))
    operations = [
        {"op": "test", "path": "/metadata/finalizers/1", "value": KEEP},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]
    answer = await api.call("PATCH", space.widgets("one"), operations, kind=JSON)
    assert answer.body["metadata"]["finalizers"] == ["ctl.test/other"]
    (await api.call("PATCH", space.widgets("one"), operations, kind=JSON)).refused(422, "Invalid")


async def test_the_mark_is_a_modification_on_the_watch(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    async with api.watch(space.widgets(), resourceVersion=version(made)) as watch:
        marked = await api.delete(space.widgets("one"))
        assert await watch.next() == {"type": "MODIFIED", "object": marked}


async def test_a_released_name_is_free_at_once(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    await api.delete(space.widgets("one"))
    (await api.call("POST", space.widgets(), space.widget("one"))).refused(409, "AlreadyExists")
    await api.merge(space.widgets("one"), {"metadata": {"finalizers": []}})
    made = await api.create(space.widgets(), space.widget("one"))
    assert "deletionTimestamp" not in made["metadata"]


async def test_finalizers_removed_before_the_deletion_do_not_delete(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", finalizers=[KEEP]))
    await api.merge(space.widgets("one"), {"metadata": {"finalizers": []}})
    assert (await api.get(space.widgets("one")))["metadata"]["name"] == "one"


async def test_a_finalizer_has_to_be_a_possible_name(api: Api, space: Space) -> None:
    status = (await api.call("POST", space.widgets(), space.widget("one", finalizers=["not a name!"]))).refused(
        422, "Invalid"
    )
    assert status["details"]["causes"][0]["field"].startswith("metadata.finalizers")
    # Custom resources take names without a domain, such as `finalizer`.
    await api.create(space.widgets(), space.widget("one", finalizers=["unqualified"]))


@pytest.mark.parametrize(
    ("precondition", "complaint"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record ({uid})."),
        (
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}).",
        ),
    ],
)
async def test_an_unmet_precondition_is_a_conflict(api: Api, space: Space, precondition: Any, complaint: str) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    status = (await api.call("DELETE", space.widgets("one"), {"preconditions": precondition})).refused(409, "Conflict")
    expected = complaint.format(uid=made["metadata"]["uid"], version=version(made))
    assert status["message"].startswith(f'Operation cannot be fulfilled on Widget.{space.group} "one": {expected}')
    assert await api.get(space.widgets("one")) == made


async def test_a_met_precondition_deletes(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    preconditions = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    await api.delete(space.widgets("one"), {"preconditions": preconditions})


async def test_an_unknown_propagation_policy_is_refused(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    status = (await api.call("DELETE", space.widgets("one"), {"propagationPolicy": "Wrong"})).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "propagationPolicy"


async def test_delete_options_with_kind_and_background_propagation(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "gracePeriodSeconds": 0}
    assert (await api.delete(space.widgets("one"), options))["status"] == "Success"
    await api.create(space.widgets(), space.widget("one"))
    assert (await api.delete(space.widgets("one"), propagationPolicy="Background"))["status"] == "Success"


async def test_a_collection_is_deleted_by_its_selection(api: Api, space: Space) -> None:
    for name, labels in (("a", {"go": "yes"}), ("b", {"go": "yes"}), ("c", {})):
        await api.create(space.widgets(), space.widget(name, labels=labels))
    deleted = await api.delete(space.widgets(), labelSelector="go=yes")
    assert deleted["kind"] == "WidgetList"
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    left = await api.get(space.widgets())
    assert [item["metadata"]["name"] for item in left["items"]] == ["c"]


async def test_a_deleted_collection_respects_finalizers(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("a", finalizers=[KEEP]))
    await api.create(space.widgets(), space.widget("b"))
    await api.delete(space.widgets())
    left = await api.get(space.widgets())
    assert [item["metadata"]["name"] for item in left["items"]] == ["a"]
    assert left["items"][0]["metadata"]["deletionTimestamp"]


async def test_a_pod_without_a_node_is_deleted_at_once_and_answered_whole(api: Api, space: Space) -> None:
    await api.create(
        space.core("pods"), {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    )
    deleted = await api.delete(space.core("pods", "p"))
    assert deleted["kind"] == "Pod"
    assert deleted["metadata"]["deletionTimestamp"]
    (await api.call("GET", space.core("pods", "p"))).refused(404, "NotFound")


async def test_a_pod_on_a_node_is_given_its_grace(api: Api, space: Space) -> None:
    spec = {"nodeName": "absent", "containers": [{"name": "c", "image": "i"}]}
    made = await api.create(space.core("pods"), {"metadata": {"name": "p"}, "spec": spec})
    marked = await api.delete(space.core("pods", "p"))
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    when = dt.datetime.fromisoformat(marked["metadata"]["deletionTimestamp"])
    assert when - dt.datetime.now(dt.UTC) > dt.timedelta(seconds=15)
    assert (await api.get(space.core("pods", "p")))["metadata"]["uid"] == made["metadata"]["uid"]
    await api.delete(space.core("pods", "p"), {"gracePeriodSeconds": 0})
    (await api.call("GET", space.core("pods", "p"))).refused(404, "NotFound")
