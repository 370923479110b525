"""What a server does not take: strangers, too much at once, formats it does not speak."""

import dataclasses
from collections.abc import AsyncIterator

import pytest
from conformance.api import MERGE, STRATEGIC, Api
from conformance.spaces import Space, configmap
from targets import Target

MEBIBYTE = 1 << 20


@pytest.fixture
async def guarded(target: Target) -> AsyncIterator[Target]:
    """A server that asks for a token. The sandbox of the suite asks for none: kubectl sends none without TLS."""
    if target.name == "real":
        yield target
        return
    from ctl.sandbox import Sandbox, SandboxSettings

    async with Sandbox(settings=SandboxSettings(tokens=frozenset({"open sesame"}))) as sandbox:
        yield dataclasses.replace(target, url=sandbox.url, headers={"Authorization": "Bearer open sesame"})


async def test_a_wrong_token_is_unauthorized(guarded: Target) -> None:
    async with Api(guarded) as api:
        await api.get("/api/v1/namespaces")
    async with Api(dataclasses.replace(guarded, headers={"Authorization": "Bearer of bad news"})) as api:
        status = (await api.call("GET", "/api/v1/namespaces")).refused(401, "Unauthorized")
        assert status["message"] == "Unauthorized"


async def test_a_request_has_a_limit_of_three_mebibytes(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    big = {"spec": {"text": "x" * 3 * MEBIBYTE}}
    for method, path, body in (
        ("POST", space.widgets(), space.widget("two", **big)),
        ("PATCH", space.widgets("one"), big),
    ):
        kind = MERGE if method == "PATCH" else "application/json"
        status = (await api.call(method, path, body, kind=kind)).refused(413, "RequestEntityTooLarge")
        assert status["message"] == "Request entity too large: limit is 3145728"


async def test_an_object_has_a_limit_of_one_and_a_half_mebibytes(api: Api, space: Space) -> None:
    # An error for good, although its code reads as one of the moment: it comes from the storage, without a reason.
    answer = await api.call("POST", space.widgets(), space.widget("one", spec={"text": "x" * (7 * MEBIBYTE // 4)}))
    assert answer.code == 500
    assert answer.body["message"] == "etcdserver: request is too large"
    assert "reason" not in answer.body


async def test_annotations_have_a_limit_of_256_kibibytes(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    patch = {"metadata": {"annotations": {"a": "x" * (256 * 1024)}}}
    status = (await api.call("PATCH", space.widgets("one"), patch, kind=MERGE)).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.annotations"


async def test_a_body_of_an_unknown_format_is_refused(api: Api, space: Space) -> None:
    answer = await api.call("POST", space.core("configmaps"), b"x", kind="text/plain")
    assert "the body of the request was in an unknown format" in answer.refused(415, "UnsupportedMediaType")["message"]


@pytest.mark.parametrize("kind", ["application/json", STRATEGIC])
async def test_a_patch_that_custom_resources_do_not_take(api: Api, space: Space, kind: str) -> None:
    await api.create(space.widgets(), space.widget("one"))
    status = (await api.call("PATCH", space.widgets("one"), {}, kind=kind)).refused(415, "UnsupportedMediaType")
    assert status["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_a_strategic_merge_patch_is_for_builtins(api: Api, space: Space) -> None:
    await api.create(space.core("configmaps"), configmap("one", {"a": "1", "b": "2"}))
    answer = await api.call("PATCH", space.core("configmaps", "one"), {"data": {"a": None, "c": "3"}}, kind=STRATEGIC)
    assert answer.code == 200
    assert answer.body["data"] == {"b": "2", "c": "3"}


async def test_an_answer_of_an_unknown_format_is_not_acceptable(api: Api, space: Space) -> None:
    (await api.call("GET", space.widgets(), accept="text/html")).refused(406, "NotAcceptable")


async def test_a_limit_that_is_no_number_is_refused(api: Api, space: Space) -> None:
    for name in ("limit", "timeoutSeconds"):
        status = (await api.call("GET", space.widgets(), **{name: "abc"})).refused(400, "BadRequest")
        assert 'parsing "abc": invalid syntax' in status["message"]
