"""Lists: their shape, paging, and which version of the world they show."""

import asyncio

from conformance.api import Api, Body, version
from conformance.spaces import Space, configmap


def names(listed: Body) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def fill(api: Api, space: Space, *wanted: str) -> list[Body]:
    return [await api.create(space.widgets(), space.widget(name, spec={"name": name})) for name in wanted]


async def test_a_list_of_custom_resources_says_the_kind_of_each_item(api: Api, space: Space) -> None:
    made = await fill(api, space, "b", "a")
    listed = await api.get(space.widgets())
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{space.group}/v1")
    assert listed["items"] == [made[1], made[0]]
    assert version(listed) >= version(made[1])
    assert listed["metadata"].get("continue", "") == ""
    assert "remainingItemCount" not in listed["metadata"]


async def test_a_list_of_builtins_leaves_the_kind_out_of_its_items(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("mine", {"a": "1"}, labels={"mine": "yes"}))
    listed = await api.get(space.core("configmaps"), labelSelector="mine=yes")
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listed) == ["mine"]
    assert "kind" not in listed["items"][0]
    assert "apiVersion" not in listed["items"][0]


async def test_an_empty_list_has_a_version_and_no_items(api: Api, space: Space) -> None:
    listed = await api.get(space.widgets())
    assert listed["items"] == []
    assert version(listed) > 0


async def test_a_namespace_that_does_not_exist_lists_as_empty(api: Api, space: Space) -> None:
    listed = await api.get(f"/apis/{space.group}/v1/namespaces/{space.name}-absent/widgets")
    assert listed["items"] == []


async def test_a_list_of_all_namespaces_is_sorted_by_namespace_and_name(api: Api, space: Space) -> None:
    other = Space(f"{space.name}-a", space.group)
    await api.create("/api/v1/namespaces", {"metadata": {"name": other.name}})
    await fill(api, space, "b", "a")
    await fill(api, other, "c")
    listed = await api.get(f"/apis/{space.group}/v1/widgets")
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]]
    mine = [one for one in found if one[0].startswith(space.name)]
    # Sorted as the storage's keys are, "NAMESPACE/NAME": a dash comes before the slash.
    assert mine == [(other.name, "c"), (space.name, "a"), (space.name, "b")]
    await api.call("DELETE", f"/api/v1/namespaces/{other.name}")


async def test_pages_together_are_the_list(api: Api, space: Space) -> None:
    await fill(api, space, *"edcba")
    first = await api.get(space.widgets(), limit=2)
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    second = await api.get(space.widgets(), limit=2, **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["c", "d"]
    assert second["metadata"]["remainingItemCount"] == 1
    last = await api.get(space.widgets(), limit=2, **{"continue": second["metadata"]["continue"]})
    assert names(last) == ["e"]
    assert "remainingItemCount" not in last["metadata"]
    assert last["metadata"].get("continue", "") == ""
    assert version(first) == version(second) == version(last)


async def test_a_page_that_holds_everything_has_no_continue(api: Api, space: Space) -> None:
    await fill(api, space, "a", "b")
    listed = await api.get(space.widgets(), limit=2)
    assert names(listed) == ["a", "b"]
    assert listed["metadata"].get("continue", "") == ""


async def test_later_pages_show_the_world_of_the_first(api: Api, space: Space) -> None:
    await fill(api, space, "a", "b", "d")
    first = await api.get(space.widgets(), limit=1)
    await fill(api, space, "c")
    await api.delete(space.widgets("b"))
    await api.merge(space.widgets("d"), {"spec": {"name": "changed"}})
    rest = await api.get(space.widgets(), **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["b", "d"]
    assert rest["items"][1]["spec"] == {"name": "d"}
    assert version(rest) == version(first)


async def test_a_selection_is_paged_after_selecting(api: Api, space: Space) -> None:
    for name in "abcdef":
        await api.create(space.widgets(), space.widget(name, labels={"even": str(ord(name) % 2 == 0).lower()}))
    first = await api.get(space.widgets(), labelSelector="even=true", limit=2)
    assert names(first) == ["b", "d"]
    # With a selector the rest is not counted.
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    rest = await api.get(space.widgets(), labelSelector="even=true", limit=2, **{"continue": token})
    assert names(rest) == ["f"]


async def test_a_broken_continue_token_is_refused(api: Api, space: Space) -> None:
    answer = await api.call("GET", space.widgets(), limit=1, **{"continue": "no token of yours"})
    status = answer.refused(400, "BadRequest")
    assert status["message"].startswith("invalid continue token: continue key is not valid")


async def test_a_continue_token_excludes_a_version(api: Api, space: Space) -> None:
    await fill(api, space, "a", "b")
    first = await api.get(space.widgets(), limit=1)
    token = first["metadata"]["continue"]
    answer = await api.call("GET", space.widgets(), limit=1, resourceVersion=version(first), **{"continue": token})
    assert answer.code == 400


async def test_version_zero_lists_what_the_server_has_at_hand(api: Api, space: Space) -> None:
    await fill(api, space, "a", "b")
    listed = await api.get(space.widgets(), resourceVersion=0)
    assert set(names(listed)) <= {"a", "b"}
    assert version(listed) > 0


async def test_version_zero_ignores_the_limit(api: Api, space: Space) -> None:
    made = await fill(api, space, "a", "b", "c")
    # Served from the cache, which is asked to have caught up first.
    await api.get(space.widgets(), resourceVersion=version(made[-1]))
    listed = await api.get(space.widgets(), resourceVersion=0, limit=1)
    assert names(listed) == ["a", "b", "c"]


async def test_a_version_is_a_lower_bound_unless_said_otherwise(api: Api, space: Space) -> None:
    made = await fill(api, space, "a", "b")
    for extra in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        listed = await api.get(space.widgets(), resourceVersion=version(made[0]), **extra)
        assert version(listed) >= version(made[0])
        assert "a" in names(listed)
        listed = await api.get(space.widgets(), resourceVersion=version(made[1]), **extra)
        assert names(listed) == ["a", "b"]


async def test_an_exact_version_shows_the_world_as_it_was(api: Api, space: Space) -> None:
    made = await fill(api, space, "a", "b")
    await api.merge(space.widgets("a"), {"spec": {"name": "changed"}})
    listed = await api.get(space.widgets(), resourceVersion=version(made[0]), resourceVersionMatch="Exact")
    assert names(listed) == ["a"]
    assert listed["items"][0] == made[0]
    assert version(listed) == version(made[0])
    listed = await api.get(space.widgets(), resourceVersion=version(made[1]), resourceVersionMatch="Exact", limit=1)
    assert names(listed) == ["a"]
    assert listed["items"][0]["spec"] == {"name": "a"}
    rest = await api.get(space.widgets(), **{"continue": listed["metadata"]["continue"]})
    assert names(rest) == ["b"]


async def test_a_list_with_an_unfitting_match_is_refused(api: Api, space: Space) -> None:
    for params in (
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "1", "resourceVersionMatch": "Sometimes"},
        {"sendInitialEvents": "true"},
    ):
        (await api.call("GET", space.widgets(), **params)).refused(422, "Invalid")


async def test_a_version_that_is_no_number_is_refused(api: Api, space: Space) -> None:
    answer = await api.call("GET", space.widgets(), resourceVersion="latest")
    assert answer.code == 400
    assert 'Invalid value: "latest"' in answer.body["message"]


async def test_a_version_of_the_future_is_too_large(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    future = version(made) + 100_000

    async def watched() -> Body:
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with api.watch(space.widgets(), resourceVersion=future, **params) as watch:
            assert watch.code == 200
            return await watch.next()

    # Each waits some seconds for the version to come.
    listed, got, event = await asyncio.gather(
        api.call("GET", space.widgets(), resourceVersion=future),
        api.call("GET", space.widgets("one"), resourceVersion=future),
        watched(),
    )
    assert event["type"] == "ERROR"
    assert (event["object"]["reason"], event["object"]["code"]) == ("Timeout", 504)
    for status in (listed.refused(504, "Timeout"), got.refused(504, "Timeout"), event["object"]):
        assert status["message"].startswith(f"Timeout: Too large resource version: {future}, current: ")
        assert status["details"]["causes"] == [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]
        assert status["details"]["retryAfterSeconds"] == 1


async def test_an_object_is_read_at_least_as_new_as_asked(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    assert await api.get(space.widgets("one"), resourceVersion=version(made)) == made
    assert await api.get(space.widgets("one"), resourceVersion=0) == made


async def test_a_list_sees_each_write_that_was_answered(api: Api, space: Space) -> None:
    for size in range(10):
        name = f"w{size}"
        made = await api.create(space.widgets(), space.widget(name))
        listed = await api.get(space.widgets(), fieldSelector=f"metadata.name={name}")
        assert listed["items"] == [made]
        assert version(listed) >= version(made)
