from dataclasses import replace
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.discovery import Discovery
from ctl.client.errors import APIError, RequestError
from ctl.client.resources import Resource
from ctl.client.rest import Client

from .wireserver import QUICK, Behaviour, Seen, Wire, serving, status, talking

V1_RESOURCES = [
    {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["list", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    },
    {"name": "pods/status", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["patch"]},
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "Node", "verbs": ["list"]},
]
EXAMPLES = [
    {"name": "kopfexamples", "singularName": "kopfexample", "namespaced": True, "kind": "KopfExample", "verbs": ["get"]}
]
GROUPS = {
    "groups": [
        {
            "name": "kopf.dev",
            "versions": [
                {"groupVersion": "kopf.dev/v1", "version": "v1"},
                {"groupVersion": "kopf.dev/v1beta1", "version": "v1beta1"},
            ],
            "preferredVersion": {"groupVersion": "kopf.dev/v1", "version": "v1"},
        },
        {"name": "broken.dev", "versions": [{"groupVersion": "broken.dev/v1", "version": "v1"}]},
    ]
}
LEGACY: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": V1_RESOURCES},
    "/apis": GROUPS,
    "/apis/kopf.dev/v1": {"resources": EXAMPLES},
    "/apis/kopf.dev/v1beta1": {"resources": EXAMPLES},
    "/apis/broken.dev/v1": {"resources": [{"name": "x"}]},
}


def tree(paths: dict[str, Any]) -> Behaviour:
    async def behave(seen: Seen, wire: Wire) -> None:
        answer = paths.get(seen.path)
        if callable(answer):
            await answer(wire)
        elif answer is None:
            await wire.reply(404, status(404, "NotFound"))
        else:
            await wire.reply(200, answer)

    return behave


def names(resources: list[Resource]) -> list[str]:
    return sorted(map(repr, resources))


async def unavailable(wire: Wire) -> None:
    await wire.reply(503, status(503, "ServiceUnavailable", "error trying to reach service"))


async def nonsense(wire: Wire) -> None:
    await wire.reply(200, b"<html>")


async def cut(wire: Wire) -> None:
    wire.cut()


async def hang(wire: Wire) -> None:
    await wire.until_closed()


async def incomplete(wire: Wire) -> None:
    await wire.reply(200, {"resources": [{"name": "x"}]})


@pytest.mark.parametrize("problem", [unavailable, nonsense, cut, hang, incomplete])
async def test_one_broken_group_never_blocks_the_others(problem: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings = replace(QUICK, discovery_timeout=1.0 if problem is hang else 10.0)
    async with talking(tree({**LEGACY, "/apis/broken.dev/v1": problem}), settings) as (_, client):
        discovery = Discovery(client)
        assert names(await discovery.resources()) == [
            "kopfexamples.v1.kopf.dev",
            "kopfexamples.v1beta1.kopf.dev",
            "nodes.v1",
            "pods.v1",
        ]
        assert list(discovery.failures) == ["broken.dev/v1"]
    assert "broken.dev/v1 cannot be discovered" in caplog.text


async def test_groups_that_are_described_badly_block_none_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bad: list[Any] = [None, {}, {"versions": []}, {"name": "empty.dev"}, {"name": "null.dev", "versions": None}]
    bad += [{"name": "odd.dev", "versions": [{}]}]
    answer = {"groups": [*bad, *GROUPS["groups"]]}
    async with talking(tree({**LEGACY, "/apis": answer})) as (_, client):
        discovery = Discovery(client)
        assert "kopfexamples.v1.kopf.dev" in names(await discovery.resources())
        assert len(discovery.failures) == 5
        assert discovery.failures["broken.dev/v1"] == "its description is incomplete: KeyError('kind')"
    assert "odd.dev" in caplog.text


async def test_a_group_that_names_no_preferred_version_prefers_its_first() -> None:
    groups = {"groups": [{**GROUPS["groups"][0], "preferredVersion": None}]}  # type: ignore[dict-item]
    async with talking(tree({**LEGACY, "/apis": groups})) as (_, client):
        found = await Discovery(client).resources(["kopf.dev"])
    assert {repr(each): each.preferred for each in found} == {
        "kopfexamples.v1.kopf.dev": True,
        "kopfexamples.v1beta1.kopf.dev": False,
    }


async def test_what_a_legacy_server_says_of_its_resources() -> None:
    async with talking(tree(LEGACY)) as (server, client):
        discovery = Discovery(client)
        by_name = {repr(resource): resource for resource in await discovery.resources(["", "kopf.dev"])}
        assert discovery.failures == {}
    pods = by_name["pods.v1"]
    assert (pods.kind, pods.singular, pods.shortcuts, pods.categories) == (
        "Pod",
        "pod",
        frozenset({"po"}),
        frozenset({"all"}),
    )
    assert (pods.subresources, pods.namespaced, pods.verbs, pods.preferred) == (
        frozenset({"status"}),
        True,
        frozenset({"list", "watch"}),
        True,
    )
    assert (by_name["nodes.v1"].singular, by_name["nodes.v1"].namespaced) == ("node", False)
    assert by_name["kopfexamples.v1.kopf.dev"].preferred
    assert not by_name["kopfexamples.v1beta1.kopf.dev"].preferred
    assert "/apis/broken.dev/v1" not in [seen.path for seen in server.seen]


async def test_groups_may_be_chosen() -> None:
    async with talking(tree(LEGACY)) as (server, client):
        assert names(await Discovery(client).resources([""])) == ["nodes.v1", "pods.v1"]
        assert [seen.path for seen in server.seen] == ["/api", "/api/v1"]
        assert await Discovery(client).resources(["absent.dev"]) == []
        assert await Discovery(client).resources([]) == []


def aggregated(name: str, *versions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "versions": list(versions)}


def entry(plural: str, kind: str, scope: str = "Namespaced", **more: Any) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "verbs": ["get"],
        **more,
    }


AGGREGATED: dict[str, Any] = {
    "/api": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            aggregated(
                "",
                {
                    "version": "v1",
                    "freshness": "Current",
                    "resources": [
                        entry(
                            "pods",
                            "Pod",
                            singularResource="pod",
                            shortNames=["po"],
                            categories=["all"],
                            subresources=[{"subresource": "status"}],
                        ),
                        entry("nodes", "Node", "Cluster"),
                    ],
                },
            )
        ],
    },
    "/apis": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            aggregated("stale.dev", {"version": "v1", "freshness": "Stale"}),
            aggregated("odd.dev", {"version": "v1", "resources": [{"resource": "only", "subresources": []}]}),
            aggregated("broken.dev", {"version": "v1", "resources": [{"responseKind": {"kind": "X"}}]}),
            aggregated(
                "kopf.dev",
                {"version": "v1", "freshness": "Current", "resources": [entry("kopfexamples", "KopfExample")]},
                {"version": "v1beta1", "freshness": "Current", "resources": [entry("kopfexamples", "KopfExample")]},
            ),
        ],
    },
}


async def test_aggregated_discovery_takes_two_requests() -> None:
    async with talking(tree(AGGREGATED)) as (server, client):
        discovery = Discovery(client)
        by_name = {repr(resource): resource for resource in await discovery.resources()}
        assert sorted(discovery.failures) == ["broken.dev/v1", "stale.dev/v1"]
        assert [seen.path for seen in server.seen] == ["/api", "/apis"]
        assert "as=APIGroupDiscoveryList" in server.seen[0].headers["accept"]
    assert sorted(by_name) == ["kopfexamples.v1.kopf.dev", "kopfexamples.v1beta1.kopf.dev", "nodes.v1", "pods.v1"]
    pods = by_name["pods.v1"]
    assert (pods.kind, pods.singular, pods.shortcuts, pods.categories) == (
        "Pod",
        "pod",
        frozenset({"po"}),
        frozenset({"all"}),
    )
    assert (pods.subresources, pods.namespaced, pods.verbs) == (frozenset({"status"}), True, frozenset({"get"}))
    assert (by_name["nodes.v1"].singular, by_name["nodes.v1"].namespaced) == ("node", False)
    assert [by_name[f"kopfexamples.{v}.kopf.dev"].preferred for v in ("v1", "v1beta1")] == [True, False]


async def test_a_server_that_cannot_be_asked_at_all_is_an_error(unused_port: int) -> None:
    async with Client(Access(f"http://127.0.0.1:{unused_port}"), QUICK) as client:
        with pytest.raises(RequestError, match="Is the server running"):
            await Discovery(client).resources()
    async with talking(tree({**LEGACY, "/apis": unavailable})) as (_, client):
        with pytest.raises(APIError, match="trying to reach"):
            await Discovery(client).resources()
    async with serving(tree({"/api": nonsense})) as server, Client(Access(server.url), QUICK) as client:
        with pytest.raises(RequestError, match="expected the API groups in JSON"):
            await Discovery(client).resources()
