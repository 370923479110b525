"""Creating and replacing: conflicts, preconditions, refusals."""

import pytest
from conformance.api import Api, version
from conformance.spaces import Space, configmap


async def test_creating_twice_is_refused_as_already_existing(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    status = (await api.call("POST", space.widgets(), space.widget("one"))).refused(409, "AlreadyExists")
    assert status["message"] == f'widgets.{space.group} "one" already exists'
    assert status["details"] == {"name": "one", "group": space.group, "kind": "widgets"}


async def test_creating_a_core_object_twice_names_no_group(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("one"))
    status = (await api.call("POST", space.core("configmaps"), configmap("one"))).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "one" already exists'
    assert status["details"] == {"name": "one", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("method", "subresource"),
    [("GET", None), ("PUT", None), ("PATCH", None), ("DELETE", None), ("GET", "status"), ("PATCH", "status")],
)
async def test_an_absent_object_is_not_found(api: Api, space: Space, method: str, subresource: str | None) -> None:
    path = space.widgets("absent", *([subresource] if subresource else []))
    body = space.widget("absent") if method == "PUT" else {} if method == "PATCH" else None
    if method == "PUT" and body is not None:
        body["metadata"]["resourceVersion"] = "1"
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status = (await api.call(method, path, body, kind=kind)).refused(404, "NotFound")
    assert status["message"] == f'widgets.{space.group} "absent" not found'
    assert status["details"] == {"name": "absent", "group": space.group, "kind": "widgets"}


async def test_a_replacement_takes_the_place_of_the_whole_object(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1, "colour": "red"}, labels={"a": "b"}))
    body = space.widget("one", spec={"size": 2})
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    replaced = await api.replace(space.widgets("one"), body)
    assert replaced["spec"] == {"size": 2}
    assert "labels" not in replaced["metadata"]
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert version(replaced) > version(made)


async def test_a_replacement_of_an_older_version_is_a_conflict(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    await api.merge(space.widgets("one"), {"spec": {"size": 2}})
    status = (await api.call("PUT", space.widgets("one"), {**made, "spec": {"size": 3}})).refused(409, "Conflict")
    assert status["message"] == (
        f'Operation cannot be fulfilled on widgets.{space.group} "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "one", "group": space.group, "kind": "widgets"}
    assert (await api.get(space.widgets("one")))["spec"] == {"size": 2}


async def test_a_custom_resource_is_not_replaced_without_its_version(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    status = (await api.call("PUT", space.widgets("one"), space.widget("one"))).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"
    assert "must be specified for an update" in status["message"]


async def test_a_configmap_is_replaced_without_its_version(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("one", {"x": "1"}))
    replaced = await api.replace(space.core("configmaps", "one"), configmap("one", {"y": "2"}))
    assert replaced["data"] == {"y": "2"}


async def test_a_replacement_with_another_uid_is_a_conflict(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    other = {**made, "metadata": {**made["metadata"], "uid": "00000000-0000-0000-0000-000000000001"}}
    status = (await api.call("PUT", space.widgets("one"), other)).refused(409, "Conflict")
    assert "Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000001" in status["message"]


async def test_a_replacement_under_another_name_is_refused(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    other = {**made, "metadata": {**made["metadata"], "name": "two"}}
    status = (await api.call("PUT", space.widgets("one"), other)).refused(400, "BadRequest")
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"


async def test_a_body_of_another_namespace_is_refused(api: Api, space: Space) -> None:
    body = space.widget("one")
    body["metadata"]["namespace"] = "default"
    status = (await api.call("POST", space.widgets(), body)).refused(400, "BadRequest")
    assert status["message"] == "the namespace of the provided object does not match the namespace sent on the request"


async def test_a_body_of_another_kind_is_refused(api: Api, space: Space) -> None:
    body = space.widget("one") | {"kind": "Gadget"}
    status = (await api.call("POST", space.widgets(), body)).refused(422, "Invalid")
    assert status["message"] == f'Gadget.{space.group} "one" is invalid: kind: Invalid value: "Gadget": must be Widget'


async def test_a_core_body_of_another_kind_is_refused(api: Api, space: Space) -> None:
    body = configmap("one") | {"kind": "Secret"}
    (await api.call("POST", space.core("configmaps"), body)).refused(400, "BadRequest")


async def test_a_body_of_another_version_is_refused(api: Api, space: Space) -> None:
    body = space.widget("one") | {"apiVersion": f"{space.group}/v9"}
    (await api.call("POST", space.widgets(), body)).refused(400, "BadRequest")


async def test_a_version_may_not_be_set_on_creation(api: Api, space: Space) -> None:
    body = space.widget("one")
    body["metadata"]["resourceVersion"] = "1"
    answer = await api.call("POST", space.widgets(), body)
    # A Status without a reason: the error comes from the storage.
    assert answer.code == 500
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "resourceVersion should not be set on objects to be created",
        "code": 500,
    }


async def test_an_object_without_a_name_is_refused(api: Api, space: Space) -> None:
    body = space.widget("one")
    body["metadata"] = {}
    status = (await api.call("POST", space.widgets(), body)).refused(422, "Invalid")
    assert "name or generateName is required" in status["message"]


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "x" * 254])
async def test_a_name_that_no_host_may_have_is_refused(api: Api, space: Space, name: str) -> None:
    status = (await api.call("POST", space.widgets(), space.widget(name))).refused(422, "Invalid")
    assert status["details"]["name"] == name
    assert status["details"]["causes"][0]["field"] == "metadata.name"


async def test_an_invalid_label_is_refused(api: Api, space: Space) -> None:
    body = space.widget("one", labels={"a": "no spaces, please"})
    status = (await api.call("POST", space.widgets(), body)).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.labels"


async def test_a_body_that_is_no_json_is_refused(api: Api, space: Space) -> None:
    (await api.call("POST", space.widgets(), b"{not json")).refused(400, "BadRequest")


async def test_an_object_is_not_created_at_its_own_address(api: Api, space: Space) -> None:
    (await api.call("POST", space.core("configmaps", "one"), configmap("one"))).refused(405, "MethodNotAllowed")


async def test_a_collection_is_not_replaced(api: Api, space: Space) -> None:
    (await api.call("PUT", space.core("configmaps"), configmap("one"))).refused(405, "MethodNotAllowed")


async def test_a_yaml_body_is_read(api: Api, space: Space) -> None:
    text = f"apiVersion: {space.group}/v1\nkind: Widget\nmetadata:\n  name: one\nspec:\n  size: 1\n"
    answer = await api.call("POST", space.widgets(), text.encode(), kind="application/yaml")
    assert answer.code == 201
    assert answer.body["spec"] == {"size": 1}


async def test_dry_run_answers_as_if_and_keeps_nothing(api: Api, space: Space) -> None:
    answer = await api.call("POST", space.widgets(), space.widget("one"), dryRun="All")
    assert answer.code == 201
    assert answer.body["metadata"]["uid"]
    (await api.call("GET", space.widgets("one"))).refused(404, "NotFound")

    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    patched = await api.merge(space.widgets("one"), {"spec": {"size": 2}}, dryRun="All")
    assert patched["spec"] == {"size": 2}
    await api.replace(space.widgets("one"), {**made, "spec": {"size": 3}}, dryRun="All")
    await api.delete(space.widgets("one"), dryRun="All")
    assert await api.get(space.widgets("one")) == made


async def test_a_dry_run_that_is_not_for_all_is_refused(api: Api, space: Space) -> None:
    (await api.call("POST", space.widgets(), space.widget("one"), dryRun="Some")).refused(422, "Invalid")
