"""What a hostile or unlucky client sends costs the server little, and is refused in the words of the API."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from ctl.sandbox import Sandbox

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
FOOS = "/apis/example.com/v1/namespaces/default/foos"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def definition(schema: dict[str, Any], plural: str = "foos") -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": plural.removesuffix("s").capitalize()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def matching(pattern: str) -> dict[str, Any]:
    text = {"type": "string", "pattern": pattern}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"text": text}}}}


def foo(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, **more}


class Http:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def __call__(
        self, method: str, path: str, body: object = None, kind: str = JSON, **headers: str
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        head = {"Content-Type": kind, **headers}
        async with self.session.request(method, self.url + path, data=data, headers=head) as response:
            answer = await response.read()
            return response.status, json.loads(answer) if response.content_type == JSON else answer


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as found:
        found.create(definition(ANYTHING))
        found.create(foo("one", spec={}))
        found.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
        yield found


@pytest.fixture
async def http(sandbox: Sandbox) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(session, sandbox.url)


FOREIGN = [
    "evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.1.2.3",
    "[::2]:80",
    "[",
    "@",
]
OWN = ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.8.9.10:80", "[::1]:443"]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_foreign_host_is_forbidden(sandbox: Sandbox, http: Http, host: str, method: str) -> None:
    path = f"{CONFIGMAPS}/one" if method == "DELETE" else CONFIGMAPS
    code, status = await http(method, path, {"metadata": {"name": "two"}}, Host=host)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert sandbox.get("v1", "ConfigMap", "one") is not None
    assert sandbox.get("v1", "ConfigMap", "two") is None


@pytest.mark.parametrize("origin", [*(f"http://{host}" for host in FOREIGN), "null", "evil.example"])
async def test_a_page_of_another_server_is_forbidden(sandbox: Sandbox, http: Http, origin: str) -> None:
    code, status = await http("POST", CONFIGMAPS, {"metadata": {"name": "two"}}, Origin=origin)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert sandbox.get("v1", "ConfigMap", "two") is None


@pytest.mark.parametrize("host", OWN)
async def test_the_loopback_is_answered_by_each_of_its_names(http: Http, host: str) -> None:
    assert (await http("GET", CONFIGMAPS, Host=host))[0] == 200
    assert (await http("GET", CONFIGMAPS, Origin=f"http://{host}"))[0] == 200


async def test_a_server_on_all_addresses_is_answered_by_address_but_not_by_name() -> None:
    async with Sandbox(host="0.0.0.0") as sandbox, aiohttp.ClientSession() as session:
        http = Http(session, f"http://127.0.0.1:{sandbox.port}")
        assert (await http("GET", CONFIGMAPS, Host=f"10.1.2.3:{sandbox.port}"))[0] == 200
        assert (await http("GET", CONFIGMAPS, Host="evil.example"))[0] == 403


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def whole(path: str, spec: bytes) -> bytes:
    head = ("v1", "ConfigMap") if path == CONFIGMAPS else ("example.com/v1", "Foo")
    return b'{"apiVersion":"%s","kind":"%s","metadata":{"name":"one"},"spec":%s}' % (*map(str.encode, head), spec)


@pytest.mark.parametrize("depth", [401, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("path", [CONFIGMAPS, FOOS])
async def test_deep_json_is_a_bad_request(http: Http, path: str, depth: int) -> None:
    before = await http("GET", f"{path}/one")
    deep = nested(depth)
    for method, kind, body in (
        ("POST", JSON, whole(path, deep)),
        ("POST", JSON, whole(path, b"[" * depth + b"]" * depth)),
        ("POST", YAML, whole(path, deep)),
        ("PUT", JSON, whole(path, deep)),
        ("PATCH", MERGE, b'{"spec":%s}' % deep),
        ("PATCH", JSON_PATCH, b'[{"op":"add","path":"/spec","value":%s}]' % deep),
        ("PATCH", APPLY, whole(path, deep)),
        *([("PATCH", STRATEGIC, b'{"spec":%s}' % deep)] if path == CONFIGMAPS else []),
    ):
        target = path if method == "POST" else f"{path}/one?fieldManager=test"
        code, status = await http(method, target, body, kind)
        assert (code, status["reason"]) == (400, "BadRequest"), (method, kind)
    code, status = await http("DELETE", f"{path}/one", deep)
    assert (code, status["reason"]) == (400, "BadRequest")
    assert await http("GET", f"{path}/one") == before


async def test_what_is_nested_as_deep_as_may_be_is_stored_and_read(http: Http) -> None:
    for number, method in enumerate(("POST", "PATCH")):
        path = FOOS if method == "POST" else f"{FOOS}/deep{number}?fieldManager=test"
        deep = json.loads(nested(398))
        assert (await http(method, path, foo(f"deep{number}", spec=deep), JSON if method == "POST" else APPLY))[
            0
        ] == 201
        assert (await http("GET", f"{FOOS}/deep{number}"))[1]["spec"] == deep
        code, _ = await http("PATCH", f"{FOOS}/deep{number}", {"spec": {"b": json.loads(nested(397))}}, MERGE)
        assert code == 200
    assert (await http("GET", FOOS, Accept="application/json;as=Table;g=meta.k8s.io;v=v1"))[0] == 200


async def test_brackets_in_strings_are_no_levels(http: Http) -> None:
    text = '{"a":[\\"\\\\' * 2_000
    code, made = await http("POST", CONFIGMAPS, {"metadata": {"name": "two"}, "data": {"a": text}})
    assert (code, made["data"]["a"]) == (201, text)


async def test_a_patch_in_steps_does_not_lead_deeper(http: Http) -> None:
    steps = [{"op": "add", "path": "/spec" + "/a" * depth, "value": {}} for depth in range(500)]
    code, status = await http("PATCH", f"{FOOS}/one", steps, JSON_PATCH)
    assert (code, status["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("times", [13, 40, 9_999])
@pytest.mark.parametrize("path", [CONFIGMAPS, FOOS])
async def test_a_patch_copies_three_mebibytes_at_most(http: Http, path: str, times: int) -> None:
    before = await http("GET", f"{path}/one")
    grow: list[dict[str, Any]] = [{"op": "add", "path": "/spec", "value": {"a": "x" * 1_000}}]
    grow += [{"op": "copy", "from": "/spec", "path": f"/spec/k{number}"} for number in range(times)]
    begun = time.process_time()
    code, status = await http("PATCH", f"{path}/one", grow, JSON_PATCH)
    assert (code, status["reason"]) == (422, "Invalid")
    assert time.process_time() - begun < 10  # it would be 2^times
    assert await http("GET", f"{path}/one") == before


async def test_a_patch_has_ten_thousand_operations_at_most(http: Http) -> None:
    one = {"op": "add", "path": "/spec", "value": {}}
    assert (await http("PATCH", f"{FOOS}/one", [one] * 10_000, JSON_PATCH))[0] == 200
    code, status = await http("PATCH", f"{FOOS}/one", [one] * 10_001, JSON_PATCH)
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")


# Patterns that a backtracking engine needs longer for than the universe has; the last ones it does in time.
SLOW = [r"^(a|aa)+$", r"^(a+)+$", r"(.*)*(.*)*(.*)*[^a]", r"^([a-zA-Z0-9]+\s?)*$", r"(x+x+)+y"]


@pytest.mark.parametrize("pattern", SLOW)
async def test_patterns_of_a_schema_take_bounded_time(sandbox: Sandbox, http: Http, pattern: str) -> None:
    sandbox.create(definition(matching(pattern), "slows"))
    path = "/apis/example.com/v1/namespaces/default/slows"
    text = "a" * 5_000 + ("" if pattern.endswith("[^a]") else "!")
    slow = {"apiVersion": "example.com/v1", "kind": "Slow", "metadata": {"name": "one"}, "spec": {"text": text}}
    begun = time.process_time()
    code, status = await http("POST", path, slow)
    assert (
        time.process_time() - begun < 20
    )  # one second by the clock of the wall, on a machine that is busy with others
    assert code in (422, 500), status
    if code == 500:
        assert f"could not be matched against '{pattern}' within 1 s" in status["message"]
    slow["spec"] = {"text": "b"}
    assert (await http("POST", path, slow))[0] in (201, 422)


async def test_many_slow_patterns_take_no_longer_than_one(sandbox: Sandbox, http: Http) -> None:
    text = {"type": "string", "pattern": "^(a|aa)+$"}
    spec = {"type": "object", "properties": {"texts": {"type": "array", "items": text}}}
    sandbox.create(definition({"type": "object", "properties": {"spec": spec}}, "slows"))
    body = {"apiVersion": "example.com/v1", "kind": "Slow", "metadata": {"name": "one"}}
    begun = time.process_time()
    slow = {**body, "spec": {"texts": ["a" * 30 + "!"] * 10_000}}
    assert (await http("POST", "/apis/example.com/v1/namespaces/default/slows", slow))[0] == 500
    assert time.process_time() - begun < 20


# Pattern, a text that has it, one that has not: as Go reads them, not Python.
PATTERNS = [
    (r"^a$", "a", "a\n"),
    (r"^\d+$", "3", "\N{ARABIC-INDIC DIGIT THREE}"),
    (r"^\w+$", "e_1", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    (r"^\s$", "\t", "\v"),
    (r"^\p{L}+$", "\N{LATIN SMALL LETTER E WITH ACUTE}", "1"),
    (r"^\pL$", "a", "1"),
    (r"^[[:alpha:]]+$", "abc", "ab1"),
    (r"^a\z", "a", "ab"),
    (r"^\x{41}\Q.*\E$", "A.*", "Aaa"),
    (r"(?i)^abc$", "ABC", "abd"),
    (r"(?m)^b$", "a\nb\nc", "ab"),
    (r"a{,2}b", "a{,2}b", "aab"),
    (r"^.{2,3}?$", "abc", "abcd"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS)
async def test_patterns_are_those_of_go(sandbox: Sandbox, http: Http, pattern: str, good: str, bad: str) -> None:
    sandbox.create(definition(matching(pattern), "pats"))
    path = "/apis/example.com/v1/namespaces/default/pats"
    one: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Pat", "metadata": {"name": "one"}}
    code, status = await http("POST", path, {**one, "spec": {"text": bad}})
    assert (code, status["reason"]) == (422, "Invalid")
    assert f"spec.text in body should match '{pattern}'" in status["message"]
    assert (await http("POST", path, {**one, "spec": {"text": good}}))[0] == 201


# What Python's expressions have and Go's have not, and what neither takes.
UNUSABLE = [
    *(r"^(?=a)b$", r"(?<!a)b", r"(?>a)b", r"(?#c)a", r"(?R)", r"(a)\1", r"a\Z", r"\Ga", "a++", "a**", "a{2}{3}"),
    *("a{1001}", "(", "[a-z", "*a", "\\", "x{2,1}"),
]


@pytest.mark.parametrize("pattern", UNUSABLE)
async def test_a_pattern_that_go_does_not_take_is_refused_in_the_definition(http: Http, pattern: str) -> None:
    code, status = await http("POST", DEFINITIONS, definition(matching(pattern), "pats"))
    assert (code, status["reason"]) == (422, "Invalid")
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "spec.validation.openAPIV3Schema.properties[spec].properties[text].pattern"
    assert "must be a valid regular expression, but isn't: error parsing regexp: " in cause["message"]


ALIASES = b"".join(b"%c: &%c [%s]\n" % (name, name, b",".join([b"*%c" % (name - 1)] * 10)) for name in b"bcdefghi")


@pytest.mark.parametrize(
    "document",
    [
        b"a: &a [x]\n" + ALIASES,
        b"a: &a\n  b: *a\n",
        b"a: .inf\n? [x]\n: y\n",
        b"a: !!timestamp x\n",
        b"a: " + b"9" * 5_000,
    ],
)
@pytest.mark.parametrize("kind", [YAML, APPLY])
async def test_yaml_that_is_more_than_it_seems_is_a_bad_request(http: Http, kind: str, document: bytes) -> None:
    body = b"apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: two}\n" + document
    method, path = ("POST", FOOS) if kind == YAML else ("PATCH", f"{FOOS}/two?fieldManager=test")
    code, status = await http(method, path, body, kind)
    assert (code, status["reason"]) == (400, "BadRequest")
    assert (await http("GET", f"{FOOS}/two"))[0] == 404


async def test_a_number_without_an_end_is_refused_at_once(http: Http) -> None:
    begun = time.process_time()
    body = b"k8s\0" + b"\xff" * 900_000
    assert (await http("POST", CONFIGMAPS, body, "application/vnd.kubernetes.protobuf"))[0] in (400, 415)
    assert time.process_time() - begun < 3  # the square of its length took half a minute


async def test_a_compressed_body_is_not_unpacked(http: Http) -> None:
    bomb = gzip.compress(json.dumps({"metadata": {"name": "two"}, "data": {"a": "x" * 20_000_000}}).encode())
    code, status = await http("POST", CONFIGMAPS, bomb, **{"Content-Encoding": "gzip"})
    assert (code, status["reason"]) == (400, "BadRequest")


async def test_what_is_no_utf_8_is_replaced(http: Http) -> None:
    code, made = await http("POST", CONFIGMAPS, b'{"metadata":{"name":"two"},"data":{"a":"\xff"}}')
    assert (code, made["data"]) == (201, {"a": "\N{REPLACEMENT CHARACTER}"})


NUMBERS = ["1_0", "1.5", "\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT THREE}", "9" * 30, "9" * 5_000, "abc"]


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "resourceVersion"])
async def test_a_number_in_a_query_is_one_of_64_bits(http: Http, name: str) -> None:
    for text in NUMBERS:
        code, status = await http("GET", f"{CONFIGMAPS}?{name}={text}")
        assert (code, status["reason"]) == (400, "BadRequest"), text


async def test_a_grace_period_is_a_number(http: Http) -> None:
    for text in NUMBERS:
        assert (await http("DELETE", f"{CONFIGMAPS}/one?gracePeriodSeconds={text}"))[0] == 400, text
    assert (await http("DELETE", f"{CONFIGMAPS}/one", {"gracePeriodSeconds": "soon"}))[0] == 400
    assert (await http("DELETE", f"{CONFIGMAPS}/one?gracePeriodSeconds=-1"))[0] == 200


async def test_a_watch_is_what_is_not_said_to_be_none(sandbox: Sandbox, http: Http) -> None:
    assert (await http("GET", f"{CONFIGMAPS}?watch=False"))[1]["kind"] == "ConfigMapList"
    async with http.session.get(f"{sandbox.url}{CONFIGMAPS}?watch=yes") as response:
        assert json.loads(await response.content.readline())["type"] == "ADDED"


async def test_a_selector_may_be_long(http: Http) -> None:
    values = ",".join(f"v{number}" for number in range(20_000))
    assert (await http("GET", f"{CONFIGMAPS}?labelSelector=a in ({values})"))[1]["items"] == []


async def test_others_are_answered_after_all_of_it(sandbox: Sandbox, http: Http) -> None:
    bodies = [nested(100_000), b"[" * 900_000, b'{"a":"' + b'\\"' * 400_000, b"\x00" * 900_000]
    await asyncio.gather(*(http("POST", CONFIGMAPS, body) for body in bodies))
    assert (await http("GET", "/readyz"))[0] == 200
    assert sandbox.watchers == 0
