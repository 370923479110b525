"""The split between an object and its status subresource."""

from conformance.api import Api, version
from conformance.spaces import Space


async def test_the_main_address_ignores_the_status(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}, status={"s": 1}))
    assert "status" not in made
    patched = await api.merge(space.widgets("one"), {"spec": {"a": 2}, "status": {"s": 2}})
    assert "status" not in patched
    replaced = await api.replace(space.widgets("one"), {**patched, "status": {"s": 3}})
    assert version(replaced) == version(patched)


async def test_the_status_address_changes_the_status_alone(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}, labels={"l": "1"}))
    patch = {
        "metadata": {"labels": {"l": "2"}, "annotations": {"x": "y"}, "finalizers": ["ctl.test/keep"]},
        "spec": {"a": 2},
        "other": 1,
        "status": {"s": 1},
    }
    patched = await api.merge(space.widgets("one", "status"), patch)
    assert patched["status"] == {"s": 1}
    assert patched["spec"] == {"a": 1}
    assert "other" not in patched
    assert patched["metadata"]["labels"] == {"l": "1"}
    assert "annotations" not in patched["metadata"]
    assert "finalizers" not in patched["metadata"]
    assert version(patched) > version(made)
    assert await api.get(space.widgets("one")) == patched


async def test_a_write_to_the_main_address_keeps_the_status(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    stated = await api.merge(space.widgets("one", "status"), {"status": {"s": 1}})
    del stated["status"]
    replaced = await api.replace(space.widgets("one"), {**stated, "spec": {"a": 1}})
    assert replaced["status"] == {"s": 1}
    assert (await api.merge(space.widgets("one"), {"status": None}))["status"] == {"s": 1}


async def test_the_status_address_answers_with_the_whole_object(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    assert await api.get(space.widgets("one", "status")) == await api.get(space.widgets("one"))


async def test_the_status_is_replaced_by_a_put(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
    replaced = await api.replace(space.widgets("one", "status"), {**made, "spec": {"a": 2}, "status": {"s": 1}})
    assert replaced["spec"] == {"a": 1}
    assert replaced["status"] == {"s": 1}
    (await api.call("PUT", space.widgets("one", "status"), {**made, "status": {"s": 2}})).refused(409, "Conflict")


async def test_a_status_change_is_a_modification_on_the_watch(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    async with api.watch(space.widgets(), resourceVersion=version(made)) as watch:
        stated = await api.merge(space.widgets("one", "status"), {"status": {"s": 1}})
        assert await watch.next() == {"type": "MODIFIED", "object": stated}


async def test_without_the_subresource_the_status_is_an_ordinary_field(api: Api, space: Space) -> None:
    made = await api.create(space.plains(), space.plain("one", status={"s": 1}))
    assert made["status"] == {"s": 1}
    assert (await api.merge(space.plains("one"), {"status": {"s": 2}}))["status"] == {"s": 2}
    answer = await api.call("PATCH", space.plains("one", "status"), {"status": {}}, kind="application/merge-patch+json")
    assert answer.code == 404


async def test_the_status_may_be_null(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    await api.merge(space.widgets("one", "status"), {"status": {"s": 1}})
    cleared = await api.merge(space.widgets("one", "status"), {"status": None})
    assert "status" not in cleared
