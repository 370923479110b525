"""What a server does not take: strangers, too much at once, formats it does not speak."""

import dataclasses
import gzip
import json
from collections.abc import AsyncIterator

import pytest
from conformance.api import APPLY, JSON, MERGE, STRATEGIC, Api
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


# A Content-Type, and whether a body of JSON is taken with it. Without any it is: only what a header says can be wrong.
TYPES = [
    *(
        (kind, True)
        for kind in ("", "application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;")
    ),
    *((kind, False) for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")),
    *((kind, False) for kind in (";", "json", "*/*", "application/json, text/plain", "application/json; charset")),
]


@pytest.mark.parametrize(("kind", "taken"), TYPES)
async def test_a_write_is_judged_by_the_type_of_its_body(api: Api, space: Space, kind: str, taken: bool) -> None:
    await api.create(space.core("configmaps"), configmap("one"))
    await api.create(space.widgets(), space.widget("one"))
    token = f"/api/v1/namespaces/{space.name}/serviceaccounts/absent/token"
    for method, path, body, code in (
        ("POST", space.core("configmaps"), configmap("two"), 201),
        ("POST", space.widgets(), space.widget("two"), 201),
        ("PUT", space.core("configmaps", "one"), configmap("one", {"a": "2"}), 200),
        ("POST", token, {"spec": {}}, 404),
        ("DELETE", space.core("configmaps", "one"), {"propagationPolicy": "Background"}, 200),
    ):
        answer = await api.call(method, path, json.dumps(body).encode(), kind=kind)
        if taken:
            assert answer.code == code, (method, path, answer)
        else:
            answer.refused(415, "UnsupportedMediaType")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json"])
async def test_a_patch_needs_a_type_of_its_own(api: Api, space: Space, kind: str) -> None:
    await api.create(space.core("configmaps"), configmap("one"))
    await api.create(space.widgets(), space.widget("one"))
    for path in (space.core("configmaps", "one"), space.widgets("one")):
        (await api.call("PATCH", path, b"{}", kind=kind)).refused(415, "UnsupportedMediaType")


async def test_a_body_that_is_nested_too_deeply_is_refused(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    head = json.dumps({**space.widget("two"), "spec": {}}).encode()
    whole = head.replace(b'"spec": {}', b'"spec": ' + deep)
    assert len(whole) > len(deep)
    for method, path, body, kind in (
        ("POST", space.widgets(), whole, "application/json"),
        ("POST", space.widgets(), whole, "application/yaml"),
        ("PATCH", space.widgets("one"), b'{"spec":%s}' % deep, MERGE),
        ("PATCH", space.widgets("one"), b'[{"op":"add","path":"/spec","value":%s}]' % deep, JSON),
        ("PATCH", f"{space.widgets('two')}?fieldManager=test", whole, APPLY),
    ):
        (await api.call(method, path, body, kind=kind)).refused(400, "BadRequest")


async def test_a_document_of_aliases_is_refused(api: Api, space: Space) -> None:
    lines = [b"apiVersion: v1", b"kind: ConfigMap", b"metadata: {name: one}", b"a: &a [x]"]
    lines += [b"%c: &%c [%s]" % (name, name, b",".join([b"*%c" % (name - 1)] * 10)) for name in b"bcdefghi"]
    answer = await api.call("POST", space.core("configmaps"), b"\n".join(lines), kind="application/yaml")
    assert "document contains excessive aliasing" in answer.refused(400, "BadRequest")["message"]


@pytest.mark.parametrize("times", [13, 40])
async def test_a_patch_copies_no_more_than_a_request_may_hold(api: Api, space: Space, times: int) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    grow: list[dict[str, object]] = [{"op": "add", "path": "/spec", "value": {"a": "x" * 1_000}}]
    grow += [{"op": "copy", "from": "/spec", "path": f"/spec/k{number}"} for number in range(times)]
    (await api.call("PATCH", space.widgets("one"), grow, kind=JSON)).refused(422, "Invalid")
    assert await api.get(space.widgets("one")) == made


async def test_a_patch_has_ten_thousand_operations_at_most(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("one"))
    operations = [{"op": "add", "path": "/spec", "value": {}}] * 10_001
    status = (await api.call("PATCH", space.widgets("one"), operations, kind=JSON)).refused(
        413, "RequestEntityTooLarge"
    )
    words = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert status["message"] == f"Request entity too large: {words}"


async def test_a_compressed_body_is_no_json(api: Api, space: Space) -> None:
    body = gzip.compress(json.dumps(configmap("one")).encode())
    (await api.call("POST", space.core("configmaps"), body)).refused(400, "BadRequest")


async def test_a_selector_may_be_long(api: Api, space: Space) -> None:
    values = ",".join(f"v{number}" for number in range(20_000))
    assert (await api.get(space.widgets(), labelSelector=f"a in ({values})"))["items"] == []


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
    for name in ("limit", "timeoutSeconds", "resourceVersion"):
        for text in ("abc", "1_0", "1.5", "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT THREE}"):
            status = (await api.call("GET", space.widgets(), **{name: text})).refused(400, "BadRequest")
            assert f'parsing "{text}": invalid syntax' in status["message"]
        status = (await api.call("GET", space.widgets(), **{name: "9" * 30})).refused(400, "BadRequest")
        assert "value out of range" in status["message"]
    for text in ("abc", "1_0"):
        answer = await api.call("DELETE", space.widgets("absent"), gracePeriodSeconds=text)
        assert f'parsing "{text}": invalid syntax' in answer.refused(400, "BadRequest")["message"]
