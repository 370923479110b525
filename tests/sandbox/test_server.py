"""The embedded server over a real socket, as clients see it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from ctl.sandbox import Match, Sandbox, SandboxSettings

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
FOOS = "/apis/example.com/v1/namespaces/default/foos"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


class Http:
    """A bare client: method, path, body -> (code, decoded answer)."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        head = {"Content-Type": "application/json", **(headers or {})}
        async with self.session.request(method, self.url + path, data=data, headers=head) as response:
            answer = await response.read()
            return response.status, json.loads(answer) if response.content_type == "application/json" else answer

    async def events(self, path: str, count: int) -> list[dict[str, Any]]:
        """The first events of a watch, then hang up."""
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(10), self.session.get(self.url + path) as response:
            assert response.status == 200
            while len(found) < count:
                line = await response.content.readline()
                if not line:
                    break
                found.append(json.loads(line))
        return found


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(settings=SandboxSettings(window=100)) as found:
        found.create(CRD)
        yield found


@pytest.fixture
async def http(sandbox: Sandbox) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(session, sandbox.url)


def configmap(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "1"}}


def foo(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name, **meta}, "spec": {"a": 1}}


async def test_a_created_object_has_what_the_system_owns(http: Http) -> None:
    code, made = await http("POST", FOOS, foo("one"))
    assert code == 201
    meta = made["metadata"]
    assert meta["generation"] == 1
    assert meta["namespace"] == "default"
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 9950
    assert (await http("GET", FOOS + "/one")) == (200, made)


async def test_a_taken_name_is_refused(http: Http) -> None:
    await http("POST", CONFIGMAPS, configmap("one"))
    code, status = await http("POST", CONFIGMAPS, configmap("one"))
    assert code == 409
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'configmaps "one" already exists'
    assert status["details"] == {"name": "one", "kind": "configmaps"}


async def test_generation_follows_spec_and_status_has_its_own_endpoint(http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    _, same = await http("PATCH", FOOS + "/one", {"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}}, MERGE)
    assert same["metadata"]["generation"] == 1
    assert "status" not in same
    _, status = await http("PATCH", FOOS + "/one/status", {"spec": {"a": 5}, "status": {"x": 1}}, MERGE)
    assert (status["metadata"]["generation"], status["spec"], status["status"]) == (1, {"a": 1}, {"x": 1})
    _, changed = await http("PATCH", FOOS + "/one", {"spec": {"a": 2}}, MERGE)
    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {"x": 1}


async def test_a_write_that_changes_nothing_makes_no_version(http: Http) -> None:
    _, made = await http("POST", FOOS, foo("one"))
    _, same = await http("PATCH", FOOS + "/one", {"spec": {"a": 1}}, MERGE)
    assert same == made


async def test_stale_versions_conflict(http: Http) -> None:
    _, made = await http("POST", FOOS, foo("one"))
    await http("PATCH", FOOS + "/one", {"spec": {"a": 2}}, MERGE)
    code, status = await http("PUT", FOOS + "/one", made)
    assert (code, status["reason"]) == (409, "Conflict")
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"a": 3}}
    code, status = await http("PATCH", FOOS + "/one", stale, MERGE)
    assert (code, status["reason"]) == (409, "Conflict")


async def test_a_foreign_uid_in_a_patch_is_invalid_and_ignored_on_status(http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    code, status = await http("PATCH", FOOS + "/one", {"metadata": {"uid": "other"}}, MERGE)
    assert (code, status["reason"]) == (422, "Invalid")
    code, _ = await http("PATCH", FOOS + "/one/status", {"metadata": {"uid": "other"}, "status": {"x": 1}}, MERGE)
    assert code == 200


async def test_a_failed_json_patch_test_is_invalid(http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    patch = [{"op": "test", "path": "/spec/a", "value": 7}, {"op": "replace", "path": "/spec/a", "value": 8}]
    code, status = await http("PATCH", FOOS + "/one", patch, JSON_PATCH)
    assert (code, status["reason"]) == (422, "Invalid")
    patch[0]["value"] = 1
    code, changed = await http("PATCH", FOOS + "/one", patch, JSON_PATCH)
    assert (code, changed["spec"]) == (200, {"a": 8})


async def test_finalizers_hold_an_object_until_the_last_is_gone(http: Http) -> None:
    await http("POST", FOOS, foo("one", finalizers=["x.io/a"]))
    code, marked = await http("DELETE", FOOS + "/one")
    assert code == 200
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == 2
    code, status = await http("PATCH", FOOS + "/one", {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}}, MERGE)
    assert (code, status["reason"]) == (422, "Invalid")
    code, last = await http("PATCH", FOOS + "/one", {"metadata": {"finalizers": []}}, MERGE)
    assert code == 200
    assert "finalizers" not in last["metadata"]
    assert (await http("GET", FOOS + "/one"))[0] == 404


async def test_pages_are_consistent_and_expire(sandbox: Sandbox, http: Http) -> None:
    for index in range(5):
        await http("POST", CONFIGMAPS, configmap(f"c{index}"))
    _, first = await http("GET", CONFIGMAPS + "?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await http("DELETE", CONFIGMAPS + "/c3")
    token = first["metadata"]["continue"]
    _, rest = await http("GET", CONFIGMAPS + f"?limit=10&continue={token}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3", "c4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert all("kind" not in item for item in rest["items"])
    sandbox.compact()
    code, status = await http("GET", CONFIGMAPS + f"?limit=10&continue={token}")
    assert (code, status["reason"]) == (410, "Expired")
    _, current = await http("GET", CONFIGMAPS + f"?continue={status['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in current["items"]] == ["c2", "c4"]


async def test_versions_of_lists(sandbox: Sandbox, http: Http) -> None:
    _, old = await http("GET", CONFIGMAPS)
    version = old["metadata"]["resourceVersion"]
    await http("POST", CONFIGMAPS, configmap("one"))
    _, exact = await http("GET", CONFIGMAPS + f"?resourceVersion={version}&resourceVersionMatch=Exact")
    assert exact["items"] == []
    _, newer = await http("GET", CONFIGMAPS + f"?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert len(newer["items"]) == 1
    code, status = await http("GET", CONFIGMAPS + "?resourceVersion=99999999")
    assert (code, status["reason"], status["details"]["retryAfterSeconds"]) == (504, "Timeout", 1)
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert (await http("GET", CONFIGMAPS + "?resourceVersionMatch=Exact"))[0] == 422


async def test_a_watch_starts_with_the_state_or_after_a_version(http: Http) -> None:
    _, made = await http("POST", FOOS, foo("one"))
    await http("PATCH", FOOS + "/one", {"spec": {"a": 2}}, MERGE)
    await http("DELETE", FOOS + "/one")
    version = made["metadata"]["resourceVersion"]
    events = await http.events(FOOS + f"?watch=true&resourceVersion={version}", 2)
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert events[1]["object"]["spec"] == {"a": 2}
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) == int(version) + 2
    await http("POST", FOOS, foo("two"))
    (state,) = await http.events(FOOS + "?watch=true", 1)
    assert (state["type"], state["object"]["metadata"]["name"]) == ("ADDED", "two")


async def test_a_forgotten_version_is_an_error_event(sandbox: Sandbox, http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    sandbox.compact()
    (event,) = await http.events(FOOS + "?watch=true&resourceVersion=9951", 2)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_a_streamed_list_ends_with_an_annotated_bookmark(http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    added, bookmark = await http.events(FOOS + query, 2)
    assert added["type"] == "ADDED"
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_objects_enter_and_leave_a_selection(http: Http) -> None:
    _, made = await http("POST", FOOS, foo("one"))
    version = made["metadata"]["resourceVersion"]
    await http("PATCH", FOOS + "/one", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await http("PATCH", FOOS + "/one", {"metadata": {"labels": None}, "spec": {"a": 9}}, MERGE)
    events = await http.events(FOOS + f"?watch=true&labelSelector=a%3Db&resourceVersion={version}", 2)
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[1]["object"]["spec"] == {"a": 1}
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) == int(version) + 2


async def test_a_namespace_takes_its_content_with_it(http: Http) -> None:
    await http("POST", "/api/v1/namespaces", {"metadata": {"name": "ns1"}})
    path = "/api/v1/namespaces/ns1/configmaps"
    await http("POST", path, configmap("free"))
    await http("POST", path, configmap("held", finalizers=["x.io/a"]))
    code, space = await http("DELETE", "/api/v1/namespaces/ns1")
    assert (code, space["status"]["phase"]) == (200, "Terminating")
    code, status = await http("POST", path, configmap("late"))
    assert code == 403
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert (await http("GET", path + "/free"))[0] == 404
    await http("PATCH", path + "/held", {"metadata": {"finalizers": None}}, MERGE)
    assert (await http("GET", "/api/v1/namespaces/ns1"))[0] == 404
    code, status = await http("POST", path, configmap("none"))
    assert (code, status["message"]) == (404, 'namespaces "ns1" not found')


async def test_a_deleted_definition_takes_its_objects_with_it(http: Http) -> None:
    await http("POST", FOOS, foo("one"))
    code, _ = await http("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com")
    assert code == 200
    assert (await http("GET", FOOS))[0] == 404
    _, groups = await http("GET", "/apis")
    assert "example.com" not in [group["name"] for group in groups["groups"]]


async def test_a_lost_answer_is_a_write_that_was_applied(sandbox: Sandbox, http: Http) -> None:
    sandbox.faults.lose_answer(match=Match(method="POST"))
    with pytest.raises(aiohttp.ClientError):
        await http("POST", CONFIGMAPS, configmap("one"))
    assert (await http("GET", CONFIGMAPS + "/one"))[0] == 200
    assert [entry.code for entry in sandbox.write_log] == [0]


async def test_chosen_answers_come_as_often_as_asked(sandbox: Sandbox, http: Http) -> None:
    sandbox.faults.answer(429, "TooManyRequests", times=2, retry_after=1)
    assert (await http("GET", CONFIGMAPS))[0] == 429
    assert (await http("GET", CONFIGMAPS))[0] == 429
    assert (await http("GET", CONFIGMAPS))[0] == 200
