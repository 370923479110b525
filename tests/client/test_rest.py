import asyncio
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.config.access import Access, Constant
from ctl.client.errors import (
    AccessError,
    AlreadyExists,
    APIError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RequestError,
)
from ctl.client.lists import ListOptions
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.watch import WatchOptions
from ctl.client.wire.request import WITHOUT_MANAGED_FIELDS

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, status, talking


async def test_get_returns_the_object_and_says_who_asks() -> None:
    async with talking(replies((200, pod("x", "7")))) as (server, client):
        found = await client.get(PODS, "x", "ns")
    assert (found.name, found.namespace, found.uid, found.resource_version) == ("x", "ns", "uid-x", "7")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/x"
    assert server.seen[0].headers["user-agent"].startswith("ctl/")


async def test_lists_and_watches_ask_for_a_media_type_where_one_is_given() -> None:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": []}
    async with talking(replies((200, body))) as (server, client):
        await client.list_page(PODS)
        await client.list_page(PODS, options=ListOptions(accept=WITHOUT_MANAGED_FIELDS))
        async with client.watch(PODS, options=WatchOptions(accept=WITHOUT_MANAGED_FIELDS)):
            pass
    asked = [seen.headers.get("accept", "*/*") for seen in server.seen]
    assert asked == ["*/*", *["application/json;drop=metadata.managedFields,application/json"] * 2]


async def test_a_server_behind_a_path() -> None:
    async with serving(replies((200, pod()))) as server, Client(Access(server.url + "/k8s/c-1")) as client:
        await client.get(PODS, "x", "ns")
    assert server.seen[0].path == "/k8s/c-1/api/v1/namespaces/ns/pods/x"


async def test_names_are_quoted_once() -> None:
    async with talking(replies((200, pod()))) as (server, client):
        await client.get(PODS, "a?b c", "n#s")
        await client.patch(PODS, "a", "ns", {}, subresource="b?c")
    assert [seen.path for seen in server.seen] == [
        "/api/v1/namespaces/n%23s/pods/a%3Fb%20c",
        "/api/v1/namespaces/ns/pods/a/b%3Fc",
    ]


ONE_OBJECT: Mapping[str, Callable[..., Awaitable[object]]] = {
    "get": lambda client, resource, name, namespace: client.get(resource, name, namespace),
    "replace": lambda client, resource, name, namespace: client.replace(
        resource, pod(), name=name, namespace=namespace
    ),
    "patch": lambda client, resource, name, namespace: client.patch(resource, name, namespace, {}),
    "delete": lambda client, resource, name, namespace: client.delete(resource, name, namespace),
}
NO_SEGMENTS: Any = [None, "", ".", "..", "a/b", "../secrets/x", "a%2Fb", "%2e%2e", 7]


@pytest.mark.parametrize("verb", ONE_OBJECT)
@pytest.mark.parametrize("name", NO_SEGMENTS)
async def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_sent(verb: str, name: Any) -> None:
    nodes = Resource("", "v1", "nodes", namespaced=False)
    unknown = Resource("", "v1", "things")
    async with talking(replies((200, pod()))) as (server, client):
        for resource, namespace in ((PODS, "ns"), (nodes, None), (unknown, "ns"), (unknown, None)):
            with pytest.raises(ValueError, match=re.escape(f"{resource!r} has no usable object name")) as caught:
                await ONE_OBJECT[verb](client, resource, name, namespace)
            assert repr(name) in str(caught.value)
    assert server.seen == [], "an empty name would make the deletion of one object that of all"


@pytest.mark.parametrize("namespace", NO_SEGMENTS[1:])
async def test_a_namespace_that_leads_elsewhere_is_refused_before_anything_is_sent(namespace: Any) -> None:
    async with talking(replies((200, pod()))) as (server, client):
        for verb in ONE_OBJECT.values():
            with pytest.raises(ValueError, match=r"pods\.v1 has no usable namespace"):
                await verb(client, PODS, "a", namespace)
        with pytest.raises(ValueError, match="no usable namespace"):
            await client.list(PODS, namespace)
        with pytest.raises(ValueError, match="no usable namespace"):
            await client.create(PODS, pod(), namespace)
        with pytest.raises(ValueError, match="no usable namespace"):
            async with client.watch(PODS, namespace):
                pass
    assert server.seen == []


@pytest.mark.parametrize("part", NO_SEGMENTS[1:])
async def test_so_are_subresources_and_resources(part: Any) -> None:
    async with talking(replies((200, pod()))) as (server, client):
        with pytest.raises(ValueError, match="no usable subresource"):
            await client.patch(PODS, "a", "ns", {}, subresource=part)
        with pytest.raises(ValueError, match="no usable subresource"):
            await client.replace(PODS, pod(), name="a", namespace="ns", subresource=part)
        with pytest.raises(ValueError, match="no usable plural name"):
            await client.delete(Resource("", "v1", part), "a", "ns")
        with pytest.raises(ValueError, match="no usable version"):
            await client.list(Resource("example.com", part, "things"))
        if part:
            with pytest.raises(ValueError, match="no usable group"):
                await client.list(Resource(part, "v1", "things"))
    assert server.seen == []


async def test_a_namespaced_object_needs_its_namespace() -> None:
    async with talking(replies((200, pod()))) as (server, client):
        for verb in ONE_OBJECT.values():
            with pytest.raises(ValueError, match="That of 'a'"):
                await verb(client, PODS, "a", None)
        with pytest.raises(ValueError, match="is created in a namespace"):
            await client.create(PODS, {"metadata": {"name": "a", "namespace": ""}})
    assert server.seen == []


@given(name=st.text(), namespace=st.text())
def test_no_name_leaves_its_place_in_the_url(name: str, namespace: str) -> None:
    try:
        url = PODS.get_object_url(namespace=namespace, name=name)
    except ValueError:
        return
    parts = urlsplit(url)
    assert (parts.query, parts.fragment) == ("", "")
    assert [unquote(part) for part in parts.path.split("/")] == ["", "api", "v1", "namespaces", namespace, "pods", name]
    assert posixpath.normpath(url) == url


async def test_list_items_lacking_a_kind_get_it_from_the_list() -> None:
    item = pod("x")
    del item["kind"], item["apiVersion"]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [item, pod("y")]}
    async with talking(replies((200, body))) as (_server, client):
        page = await client.list_page(PODS)
    assert [each.body() for each in page.items] == [pod("x"), pod("y")]
    assert (page.resource_version, page.continue_token, page.size) == ("9", None, len(server_bytes(body)))


def server_bytes(body: Any) -> bytes:
    import json

    return json.dumps(body).encode()


async def test_list_parameters() -> None:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": None}
    options = ListOptions("a=b", "metadata.name=x", 5, "tok", "0", "NotOlderThan", "shard")
    async with talking(replies((200, body))) as (server, client):
        assert (await client.list_page(PODS, "ns", options)).items == []
    assert server.seen[0].path == (
        "/api/v1/namespaces/ns/pods?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&continue=tok"
        "&resourceVersion=0&resourceVersionMatch=NotOlderThan&shardSelector=shard"
    )


def page(names: str, token: str | None = None) -> dict[str, Any]:
    meta = {"resourceVersion": "9", **({"continue": token} if token else {})}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [pod(name) for name in names]}


async def test_all_pages_are_read() -> None:
    async with talking(replies((200, page("ab", "t1")), (200, page("c", "t2")), (200, page("d")))) as (server, client):
        found = await client.list(PODS, options=ListOptions(resource_version="0"))
    assert [each.name for each in found] == list("abcd")
    assert [each.path.partition("?")[2] for each in server.seen] == [
        "limit=500&resourceVersion=0",
        "limit=500&continue=t1",
        "limit=500&continue=t2",
    ]


async def test_a_continue_token_that_expired_leads_to_one_full_list() -> None:
    gone = status(410, "Expired", "The provided continue parameter is too old")
    async with talking(replies((200, page("ab", "t1")), (410, gone), (200, page("abcd")))) as (server, client):
        found = await client.list(PODS)
    assert [each.name for each in found] == list("abcd")
    assert server.seen[-1].path == "/api/v1/pods"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (403, "Forbidden", Forbidden),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (422, "Invalid", Invalid),
        (418, "Teapot", APIError),
    ],
)
async def test_refusals_are_typed_and_not_retried(code: int, reason: str, kind: type[APIError]) -> None:
    async with talking(replies((code, status(code, reason, "because", name="x")))) as (server, client):
        with pytest.raises(kind) as caught:
            await client.get(PODS, "x", "ns")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, "because")
    assert caught.value.details == {"name": "x"}
    assert "GET http://127.0.0.1" in str(caught.value)
    assert len(server.seen) == 1


async def test_a_proxys_page_is_an_error_with_its_first_words() -> None:
    page = b"<html>\r\n<body>\n  <h1>bad gateway</h1>\n</html>"
    async with talking(replies((502, page)), replace(QUICK, error_backoffs=())) as (_server, client):
        with pytest.raises(APIError, match=r"\(502\): <html> <body> <h1>bad gateway</h1> </html>$"):
            await client.get(PODS, "x", "ns")


async def test_an_answer_that_is_no_object_is_one_message() -> None:
    async with talking(replies((200, b"<html>login</html>"))) as (_server, client):
        with pytest.raises(RequestError, match="expected an object"):
            await client.get(PODS, "x", "ns")
        with pytest.raises(RequestError, match="expected a list"):
            await client.list_page(PODS)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"items": None},
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500},
        {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "9"}, "rows": []},
        pod("x"),
    ],
)
async def test_what_is_no_list_is_not_taken_for_an_empty_one(body: dict[str, Any]) -> None:
    async with talking(replies((200, body))) as (_server, client):
        with pytest.raises(RequestError, match=r"GET /api/v1/pods: expected a list of objects, found .* no items"):
            await client.list_page(PODS)


@pytest.mark.parametrize("items", [{"items": []}, {"items": None}, {}])
async def test_an_empty_list_may_lack_its_items(items: dict[str, Any]) -> None:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, **items}
    async with talking(replies((200, body))) as (_server, client):
        assert (await client.list_page(PODS)).items == []


async def test_a_page_that_is_followed_by_itself_is_an_error_and_no_loop() -> None:
    async with talking(replies((200, page("a", "t1")))) as (server, client):
        with pytest.raises(RequestError, match="never end"):
            await client.list(PODS)
    assert len(server.seen) == 2


async def test_an_object_that_stays_for_its_finalizers_is_returned_by_delete() -> None:
    stays = pod(deletionTimestamp="2020-01-01T00:00:00Z")
    async with talking(replies((200, stays), (200, status(200)))) as (server, client):
        found = await client.delete(PODS, "a", "ns", resource_version="1", propagation="Background", grace_period=0)
        assert found is not None
        assert found.metadata().deletion_timestamp
        assert await client.delete(PODS, "a", "ns") is None
    assert server.seen[0].json == {
        "preconditions": {"resourceVersion": "1"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }
    assert server.seen[1].body == b""


async def test_bodies_may_be_any_mappings() -> None:
    class View(Mapping[str, Any]):
        def __init__(self, data: dict[str, Any]) -> None:
            self.data = data

        def __getitem__(self, key: str) -> Any:
            return self.data[key]

        def __iter__(self) -> Any:
            return iter(self.data)

        def __len__(self) -> int:
            return len(self.data)

    async with talking(replies((200, pod()))) as (server, client):
        await client.create(PODS, View({"metadata": View({"name": "a", "namespace": "ns"}), "spec": (1, 2)}))
        with pytest.raises(TypeError, match="found a object"):
            await client.create(PODS, {"metadata": {"namespace": "ns"}, "spec": object()})
    assert server.seen[0].json == {"metadata": {"name": "a", "namespace": "ns"}, "spec": [1, 2]}
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods"


async def test_other_requests() -> None:
    async with serving(replies((200, {"gitVersion": "v1"}))) as server:
        access = Access(server.url, credentials=Constant((("Authorization", "Bearer t"),)), default_namespace="dns")
        async with Client(access) as client:
            assert b"gitVersion" in await client.request("GET", "/version", params={"a": True, "b": None})
            await client.request("POST", "/x", body={"y": 1}, headers={"X-Y": "z"})
            assert client.default_namespace == "dns"
    assert server.seen[0].path == "/version?a=true"
    assert server.seen[0].headers["authorization"] == "Bearer t"
    assert (server.seen[1].json, server.seen[1].headers["x-y"]) == ({"y": 1}, "z")


async def test_a_closed_client_says_so() -> None:
    async with serving(replies((200, pod()))) as server:
        client = Client(Access(server.url), QUICK)
        await client.get(PODS, "x", "ns")
        await client.close()
        with pytest.raises(AccessError, match="closed"):
            await client.get(PODS, "x", "ns")


async def test_cancellation_is_not_swallowed() -> None:
    arrived = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        arrived.set()
        await wire.until_closed()

    async with talking(behave) as (_server, client):
        task = asyncio.create_task(client.get(PODS, "x", "ns"))
        await asyncio.wait_for(arrived.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_object_is_found_by_a_list_of_its_name_and_of_no_other() -> None:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [pod("b"), pod("a")]}
    async with talking(replies((200, body))) as (server, client):
        found = await client.find(PODS, "a", "ns")
        assert found is not None
        assert found.name == "a"
        assert await client.find(PODS, "a", "other") is None, "nor of the same name elsewhere"
        assert await client.find(PODS, "c,d=e", "ns") is None
        with pytest.raises(ValueError, match="no usable object name"):
            await client.find(PODS, "", "ns")
    asked = [parse_qs(urlsplit(seen.path).query)["fieldSelector"] for seen in server.seen]
    assert asked == [["metadata.name=a"], ["metadata.name=a"], [r"metadata.name=c\,d\=e"]]
