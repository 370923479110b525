"""What the server itself writes into an object: versions, generation, uid, names, times."""

import re
import uuid

import pytest
from conformance.api import MERGE, Api, version
from conformance.spaces import Space, configmap


async def test_a_created_object_has_the_metadata_that_the_server_gives(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    metadata = made["metadata"]
    assert made["apiVersion"] == f"{space.group}/v1"
    assert made["kind"] == "Widget"
    assert made["spec"] == {"size": 1}
    assert metadata["name"] == "one"
    assert metadata["namespace"] == space.name
    assert metadata["generation"] == 1
    assert str(uuid.UUID(metadata["uid"])) == metadata["uid"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert version(made) > 0
    assert await api.get(space.widgets("one")) == made


async def test_versions_are_decimal_and_grow_with_each_write(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    patched = [await api.merge(space.widgets("one"), {"spec": {"size": size}}) for size in range(2, 6)]
    versions = [version(one) for one in (made, *patched)]
    assert versions == sorted(set(versions))
    assert version(await api.get(space.widgets("one"))) == versions[-1]


async def test_versions_are_ordered_across_the_objects_of_a_resource(api: Api, space: Space) -> None:
    first = await api.create(space.widgets(), space.widget("first"))
    second = await api.create(space.widgets(), space.widget("second"))
    third = await api.merge(space.widgets("first"), {"spec": {"size": 1}})
    assert version(first) < version(second) < version(third)
    listed = await api.get(space.widgets())
    assert version(listed) >= version(third)


async def test_generation_counts_changes_of_the_spec_alone(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    labelled = await api.merge(space.widgets("one"), {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    finalized = await api.merge(space.widgets("one"), {"metadata": {"finalizers": ["ctl.test/keep"]}})
    sized = await api.merge(space.widgets("one"), {"spec": {"size": 2}})
    extended = await api.merge(space.widgets("one"), {"more": {"outside": "spec"}})
    stated = await api.merge(space.widgets("one", "status"), {"status": {"ready": True}})
    generations = [one["metadata"]["generation"] for one in (labelled, finalized, sized, extended, stated)]
    assert generations == [1, 1, 2, 3, 3]


async def test_generation_without_a_status_subresource_counts_changes_of_the_status_too(api: Api, space: Space) -> None:
    made = await api.create(space.plains(), space.plain("one", spec={"size": 1}))
    stated = await api.merge(space.plains("one"), {"status": {"ready": True}})
    labelled = await api.merge(space.plains("one"), {"metadata": {"labels": {"a": "b"}}})
    assert [one["metadata"]["generation"] for one in (made, stated, labelled)] == [1, 2, 2]


async def test_the_server_ignores_metadata_that_it_alone_gives(api: Api, space: Space) -> None:
    body = space.widget("one")
    body["metadata"] |= {
        "uid": str(uuid.UUID(int=1)),
        "generation": 7,
        "creationTimestamp": "2001-02-03T04:05:06Z",
        "deletionTimestamp": "2001-02-03T04:05:06Z",
        "selfLink": "/somewhere",
    }
    metadata = (await api.create(space.widgets(), body))["metadata"]
    assert metadata["uid"] != str(uuid.UUID(int=1))
    assert metadata["generation"] == 1
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata


async def test_a_patch_of_what_the_server_gives_is_ignored(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    patch = {"metadata": {"generation": 70, "creationTimestamp": "2001-02-03T04:05:06Z", "selfLink": "/somewhere"}}
    assert await api.merge(space.widgets("one"), patch) == made


async def test_a_patch_does_not_mark_for_deletion(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"deletionTimestamp": "2001-02-03T04:05:06Z"}}
    status = (await api.call("PATCH", space.widgets("one"), patch, kind=MERGE)).refused(422, "Invalid")
    assert 'metadata.deletionTimestamp: Invalid value: "2001-02-03T04:05:06Z": field is immutable' in status["message"]


async def test_a_recreated_object_has_another_uid(api: Api, space: Space) -> None:
    first = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    await api.merge(space.widgets("one"), {"spec": {"size": 2}})
    await api.delete(space.widgets("one"))
    second = await api.create(space.widgets(), space.widget("one"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert second["metadata"]["generation"] == 1
    assert version(second) > version(first)


async def test_generate_name_makes_distinct_names(api: Api, space: Space) -> None:
    body = configmap("")
    body["metadata"] = {"generateName": "some-"}
    made = [await api.create(space.core("configmaps"), body) for _ in range(3)]
    names = [one["metadata"]["name"] for one in made]
    assert len(set(names)) == 3
    for name in names:
        assert re.fullmatch(r"some-[a-z0-9]{5}", name)
    assert {one["metadata"]["generateName"] for one in made} == {"some-"}


async def test_a_name_beats_generate_name(api: Api, space: Space) -> None:
    made = await api.create(space.core("configmaps"), configmap("given", generateName="some-"))
    assert made["metadata"]["name"] == "given"


@pytest.mark.parametrize("plural", ["widgets", "configmaps"])
async def test_a_patch_that_changes_nothing_keeps_the_version(api: Api, space: Space, plural: str) -> None:
    path = space.widgets() if plural == "widgets" else space.core(plural)
    body = (
        space.widget("one", labels={"a": "b"}, data={"x": "1"}) if plural == "widgets" else configmap("one", {"x": "1"})
    )
    made = await api.create(path, body)
    assert await api.merge(f"{path}/one", {"data": {"x": "1"}}) == made
    assert await api.merge(f"{path}/one", {}) == made
    assert await api.merge(f"{path}/one", {"data": {"absent": None}}) == made
    assert await api.replace(f"{path}/one", made) == made
    assert version(await api.get(f"{path}/one")) == version(made)


async def test_a_status_patch_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    stated = await api.merge(space.widgets("one", "status"), {"status": {"ready": True}})
    assert await api.merge(space.widgets("one", "status"), {"status": {"ready": True}}) == stated
    assert await api.merge(space.widgets("one", "status"), {"spec": {"ignored": 1}}) == stated


async def test_a_write_without_effect_makes_no_event(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"size": 1}))
    async with api.watch(space.widgets(), resourceVersion=version(made)) as watch:
        await api.merge(space.widgets("one"), {"spec": {"size": 1}})
        await api.merge(space.widgets("one"), {"spec": {"size": 2}})
        event = await watch.next()
    assert event["object"]["spec"] == {"size": 2}
