"""Label and field selectors in lists and watches."""

from collections.abc import Iterable

from conformance.api import Api, version
from conformance.spaces import Space, configmap

LABELS: dict[str, dict[str, str]] = {
    "none": {},
    "red": {"colour": "red"},
    "blue": {"colour": "blue", "size": "9"},
    "odd": {"colour": "", "size": "10"},
}


BY_LABELS: dict[str, set[str]] = {
    "colour=red": {"red"},
    "colour==red": {"red"},
    "colour!=red": {"none", "blue", "odd"},
    "colour in (red, blue)": {"red", "blue"},
    "colour notin (red,blue)": {"none", "odd"},
    "colour": {"red", "blue", "odd"},
    "!colour": {"none"},
    "colour=": {"odd"},
    "colour=blue,size=9": {"blue"},
    "colour,!size": {"red"},
    "size>9": {"odd"},
    "size<10": {"blue"},
    "colour in (red),size": set(),
    "": {"none", "red", "blue", "odd"},
}
BY_NAME: dict[str, set[str]] = {
    "metadata.name=red": {"red"},
    "metadata.name==red": {"red"},
    "metadata.name!=red": {"none", "blue", "odd"},
    "metadata.name!=none,metadata.name!=blue": {"red", "odd"},
    "metadata.name=absent": set(),
}


async def selected(api: Api, path: str, kind: str, selectors: Iterable[str]) -> dict[str, set[str]]:
    """The names that each selector leaves of a list."""
    listed = {selector: await api.get(path, **{kind: selector}) for selector in selectors}
    return {selector: {item["metadata"]["name"] for item in found["items"]} for selector, found in listed.items()}


async def test_selectors_of_labels_and_names(api: Api, space: Space) -> None:
    for name, labels in LABELS.items():
        await api.create(space.widgets(), space.widget(name, labels=labels))
    assert await selected(api, space.widgets(), "labelSelector", BY_LABELS) == BY_LABELS
    assert await selected(api, space.widgets(), "fieldSelector", BY_NAME) == BY_NAME


async def test_a_broken_label_selector_is_refused(api: Api, space: Space) -> None:
    for selector in ("colour in red", "=red", "a=b=c", "colour in (red", "-x=1", "a=-b"):
        status = (await api.call("GET", space.widgets(), labelSelector=selector)).refused(400, "BadRequest")
        assert status["message"].startswith("unable to parse requirement:") or "found" in status["message"], selector


async def test_a_field_selector_by_namespace_works_across_namespaces(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    everywhere = f"/apis/{space.group}/v1/widgets"
    listed = await api.get(everywhere, fieldSelector=f"metadata.namespace={space.name}")
    assert listed["items"] == [made]
    listed = await api.get(everywhere, fieldSelector=f"metadata.namespace={space.name},metadata.name=two")
    assert listed["items"] == []


async def test_a_field_that_is_not_selectable_is_refused(api: Api, space: Space) -> None:
    answer = await api.call("GET", space.widgets(), fieldSelector="spec.size=1")
    status = answer.refused(400, "BadRequest")
    assert "field label not supported: spec.size" in status["message"]
    answer = await api.call("GET", space.core("configmaps"), fieldSelector="data.x=1")
    assert '"data.x" is not a known field selector' in answer.refused(400, "BadRequest")["message"]


async def test_pods_are_selected_by_their_own_fields(api: Api, space: Space) -> None:
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "")):
        spec = {"containers": [{"name": "main", "image": "none"}], **({"nodeName": node} if node else {})}
        await api.create(space.core("pods"), {"metadata": {"name": name}, "spec": spec})
    expected: dict[str, set[str]] = {
        "spec.nodeName=n1": {"a"},
        "spec.nodeName=": {"c"},
        "spec.nodeName!=n1": {"b", "c"},
        "status.phase=Pending": {"a", "b", "c"},
        "status.phase=Running": set(),
        "spec.restartPolicy=Always,spec.nodeName=n2": {"b"},
    }
    assert await selected(api, space.core("pods"), "fieldSelector", expected) == expected


async def test_events_are_selected_by_the_object_they_are_about(api: Api, space: Space) -> None:
    for name in ("one", "two"):
        about = {"kind": "Widget", "name": name, "namespace": space.name, "uid": f"uid-{name}"}
        await api.create(
            space.core("events"),
            {"metadata": {"name": f"e-{name}"}, "involvedObject": about, "reason": f"R{name}", "type": "Normal"},
        )
    expected: dict[str, set[str]] = {
        "involvedObject.name=one": {"e-one"},
        "involvedObject.uid=uid-two": {"e-two"},
        "involvedObject.kind=Widget,reason=Rone": {"e-one"},
        "type=Warning": set(),
    }
    assert await selected(api, space.core("events"), "fieldSelector", expected) == expected


async def test_secrets_are_selected_by_type(api: Api, space: Space) -> None:
    await api.create(space.core("secrets"), {"metadata": {"name": "a"}, "type": "ctl.test/kind"})
    await api.create(space.core("secrets"), {"metadata": {"name": "b"}})
    expected = {"type=ctl.test/kind": {"a"}, "type=Opaque": {"b"}}
    assert await selected(api, space.core("secrets"), "fieldSelector", expected) == expected


async def test_entering_and_leaving_a_label_selection(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), labelSelector="on=yes", resourceVersion=start) as watch:
        await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
        entered = await api.merge(space.widgets("one"), {"metadata": {"labels": {"on": "yes"}}})
        changed = await api.merge(space.widgets("one"), {"spec": {"a": 2}})
        left = await api.merge(space.widgets("one"), {"metadata": {"labels": {"on": "no"}}, "spec": {"a": 3}})
        await api.merge(space.widgets("one"), {"spec": {"a": 4}})
        back = await api.merge(space.widgets("one"), {"metadata": {"labels": {"on": "yes"}}})
        await api.delete(space.widgets("one"))
        events = await watch.take(5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[0]["object"] == entered
    assert events[1]["object"] == changed
    # What leaves is shown as it last was inside, with the version of the change that took it out.
    assert events[2]["object"]["spec"] == {"a": 2}
    assert events[2]["object"]["metadata"]["labels"] == {"on": "yes"}
    assert version(events[2]["object"]) == version(left)
    assert events[3]["object"] == back
    assert version(events[4]["object"]) > version(back)


async def test_a_watch_of_one_object_by_its_name(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), fieldSelector="metadata.name=b", resourceVersion=start) as watch:
        for name in "abc":
            await api.create(space.widgets(), space.widget(name))
        await api.delete(space.widgets("a"))
        await api.delete(space.widgets("b"))
        events = await watch.take(2)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]


async def test_a_selector_holds_for_the_initial_events(api: Api, space: Space) -> None:
    for name in "ab":
        await api.create(space.core("configmaps"), configmap(name, labels={"is": name}))
    async with api.watch(space.core("configmaps"), labelSelector="is=b") as watch:
        event = await watch.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
