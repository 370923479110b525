"""The values of Secrets are in no line of the log, whatever an operator does to them and however much is logged."""

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.client.objects import Object
from ctl.client.resources import Resource

from .pages import Site
from .world import LAST, World, quick

pytestmark = pytest.mark.virtual_time

SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
VALUES = [f"value-{number}-of-the-secret" for number in range(8)]
ENCODED = [base64.b64encode(value.encode()).decode() for value in VALUES]
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


def is_hidden(text: str) -> None:
    assert [value for value in (*VALUES, *ENCODED) if value in text] == []


async def a_secret(world: World, **metadata: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", **metadata}, "data": {"a": ENCODED[0]}}
    await world.user.create(SECRETS, body, "default")


def fns_in_a_create_handler() -> None:
    @ctl.on.create("v1", "secrets")
    def fn(patch: ctl.Patch, **_: Any) -> None:
        def change(body: Any) -> None:
            body["data"]["b"] = ENCODED[1]
            body["stringData"] = {"c": VALUES[2]}

        patch.fns.append(change)


def fns_that_replace_all_data() -> None:
    @ctl.on.event("v1", "secrets")
    def fn(patch: ctl.Patch, body: Any, **_: Any) -> None:
        if "b" not in body["data"]:
            patch.fns.append(lambda body: body.update(data={"b": ENCODED[1]}))


def a_merge_patch() -> None:
    @ctl.on.create("v1", "secrets")
    def fn(patch: ctl.Patch, **_: Any) -> None:
        patch["data"] = {"b": ENCODED[1]}
        patch["stringData"] = {"c": VALUES[2]}


def an_index_a_timer_and_a_daemon() -> None:
    @ctl.index("v1", "secrets")
    def index(**_: Any) -> int:
        return 1

    @ctl.timer("v1", "secrets", interval=1)
    def timer(patch: ctl.Patch, body: Any, **_: Any) -> None:
        if "b" not in body["data"]:
            patch.fns.append(lambda body: body["data"].update(b=ENCODED[1]))

    @ctl.daemon("v1", "secrets")
    async def daemon(patch: ctl.Patch, **_: Any) -> None:
        patch["data"] = {"d": ENCODED[3]}


def failures() -> None:
    @ctl.on.create("v1", "secrets", backoff=1, retries=2)
    def fn(patch: ctl.Patch, **_: Any) -> None:
        patch["data"] = {"b": ENCODED[1]}
        raise ValueError("not yet")

    @ctl.on.update("v1", "secrets", retries=2, backoff=1)
    def other(patch: ctl.Patch, **_: Any) -> None:
        patch["data"] = {"e": "not base64 " + VALUES[4]}


@pytest.mark.parametrize("plain", [False, True], ids=["sealed", "plain"])
@pytest.mark.parametrize(
    "declare",
    [fns_in_a_create_handler, fns_that_replace_all_data, a_merge_patch, an_index_a_timer_and_a_daemon, failures],
)
async def test_the_debug_log_has_no_values_of_secrets(
    world: World, caplog: pytest.LogCaptureFixture, site: Site, declare: Callable[[], None], plain: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    declare()
    settings = quick()
    settings.persistence.plain_secrets = plain
    body = {"apiVersion": "v1", "kind": "Secret", "data": {"a": ENCODED[5]}}
    async with world.running(settings=settings, http=site.http):
        await a_secret(world, annotations={KUBECTL: json.dumps(body), "example.com/copy": json.dumps(body)})
        await a_while()
        await world.patch({"data": {"a": ENCODED[6], "f": ENCODED[7]}}, resource=SECRETS)
        await a_while()
        is_hidden((await site.get("/debug/explain?key=secrets/default/one"))[1])
        is_hidden((await site.get("/metrics"))[1])
    assert "secrets" in caplog.text
    is_hidden(caplog.text)
    is_hidden(repr([vars(record).get("k8s_ref") for record in caplog.records]))


async def test_what_kopf_has_stored_of_a_secret_is_not_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fns_in_a_create_handler()

    @ctl.on.update("v1", "secrets")
    def update(**_: Any) -> None: ...

    async with world.running():
        await a_secret(world, annotations={LAST: json.dumps({"data": {"a": ENCODED[5]}, "type": "Opaque"})})
        await a_while()
    assert "is in progress" in caplog.text
    is_hidden(caplog.text)


async def test_a_stored_state_that_is_broken_is_named_without_what_is_in_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fns_in_a_create_handler()
    async with world.running():
        await a_secret(world, annotations={LAST: json.dumps([{"data": {"a": ENCODED[5]}}])})
        await a_while()
    assert "Repair it, or remove it" in caplog.text
    is_hidden(caplog.text)


def test_objects_are_shown_by_what_they_are_and_not_by_what_is_in_them() -> None:
    body = {"kind": "Secret", "metadata": {"namespace": "ns", "name": "one", "uid": "u", "resourceVersion": "7"}}
    shown = repr(Object.from_body({**body, "data": {"a": ENCODED[0]}}))
    is_hidden(shown)
    assert "ns/one" in shown
    assert "7" in shown


async def a_while() -> None:
    await asyncio.sleep(5)
