"""Custom kinds with a schema: unknown fields are dropped, defaults filled in, wrong values refused."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from conformance.api import MERGE, Answer, Api, Body
from conformance.spaces import DEFINITIONS, Space, configmap, custom, definition, established

TWO = {"x": {"type": "integer"}, "y": {"type": "integer"}}
SPEC: dict[str, Any] = {
    "en": {"type": "string", "enum": ["a", "b"]},
    "pat": {"type": "string", "pattern": "^a+$"},
    "n": {"type": "integer", "minimum": 1, "maximum": 5},
    "ex": {"type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
    "mul": {"type": "integer", "multipleOf": 3},
    "s": {"type": "string", "minLength": 2, "maxLength": 3},
    "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
    "m": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"}},
    "dt": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "ip": {"type": "string", "format": "ipv4"},
    "by": {"type": "string", "format": "byte"},
    "i32": {"type": "integer", "format": "int32"},
    "b": {"type": "boolean"},
    "ios": {"x-kubernetes-int-or-string": True},
    "nul": {"type": "string", "nullable": True},
    "nd": {"type": "string", "default": "q"},
    "od": {
        "type": "object",
        "default": {},
        "properties": {"x": {"type": "integer", "default": 7}, "y": {"type": "integer"}},
    },
    "one": {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": TWO},
    "any": {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": TWO},
    "al": {"type": "object", "allOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": TWO},
    "no": {"type": "object", "not": {"required": ["x"]}, "properties": TWO},
    "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
    "keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"in": {"type": "object"}}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "arr": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}, "d": {"type": "integer", "default": 3}},
        },
    },
}


@dataclass(frozen=True)
class Checks:
    """The kind under test."""

    api: Api
    group: str
    path: str

    def body(self, named: str, /, **spec: Any) -> Body:
        return custom(f"{self.group}/v1", "Check", named, {"spec": spec})

    async def post(self, named: str, /, **spec: Any) -> Answer:
        return await self.api.call("POST", self.path, self.body(named, **spec))


@pytest.fixture
async def checks(api: Api, space: Space) -> AsyncIterator[Checks]:
    group = f"s{secrets.token_hex(4)}.{space.group}"
    body = definition(group, "checks", "Check")
    (version,) = body["spec"]["versions"]
    version["subresources"] = {"status": {}}
    status = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    properties = {"spec": {"type": "object", "properties": SPEC}, "status": status}
    version["schema"]["openAPIV3Schema"] = {"type": "object", "required": ["spec"], "properties": properties}
    await api.create(DEFINITIONS, body)
    await established(api, body)
    yield Checks(api, group, space.grouped(f"{group}/v1", "checks"))
    await api.call("DELETE", f"{DEFINITIONS}/checks.{group}")


# A specification, and what the server says to it.
WRONG: list[tuple[Body, str]] = [
    ({"en": "c"}, 'spec.en: Unsupported value: "c": supported values: "a", "b"'),
    ({"pat": "b"}, "spec.pat: Invalid value: \"b\": spec.pat in body should match '^a+$'"),
    ({"n": 0}, "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"),
    ({"n": 6}, "spec.n: Invalid value: 6: spec.n in body should be less than or equal to 5"),
    ({"ex": 1}, "spec.ex: Invalid value: 1: spec.ex in body should be greater than 1"),
    ({"ex": 5}, "spec.ex: Invalid value: 5: spec.ex in body should be less than 5"),
    ({"mul": 4}, "spec.mul: Invalid value: 4: spec.mul in body should be a multiple of 3"),
    ({"s": "a"}, 'spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long'),
    ({"s": "abcd"}, "spec.s: Too long: may not be more than 3 bytes"),
    ({"l": []}, "spec.l: Invalid value: 0: spec.l in body should have at least 1 items"),
    ({"l": [1, 2, 3]}, "spec.l: Too many: 3: must have at most 2 items"),
    ({"l": ["a"]}, 'spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string"'),
    ({"l": {}}, 'spec.l: Invalid value: "object": spec.l in body must be of type array: "object"'),
    ({"m": {}}, "spec.m: Invalid value: 0: spec.m in body should have at least 1 properties"),
    ({"m": {"a": "x"}}, 'spec.m.a: Invalid value: "string": spec.m.a in body must be of type integer: "string"'),
    ({"dt": "x"}, 'spec.dt: Invalid value: "x": spec.dt in body must be of type date-time: "x"'),
    ({"uuid": "x"}, 'spec.uuid: Invalid value: "x": spec.uuid in body must be of type uuid: "x"'),
    ({"ip": "x"}, 'spec.ip: Invalid value: "x": spec.ip in body must be of type ipv4: "x"'),
    ({"by": "x"}, 'spec.by: Invalid value: "x": spec.by in body must be of type byte: "x"'),
    ({"i32": 2**40}, '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32'),
    ({"b": 1}, 'spec.b: Invalid value: "integer": spec.b in body must be of type boolean: "integer"'),
    ({"b": "true"}, 'spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string"'),
    ({"ios": 1.5}, 'spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number"'),
    ({"one": {}}, '"spec.one" must validate one and only one schema (oneOf). Found none valid'),
    ({"one": {"x": 1, "y": 1}}, '"spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives'),
    ({"any": {}}, '"spec.any" must validate at least one schema (anyOf)'),
    ({"al": {}}, '"spec.al" must validate all the schemas (allOf). None validated'),
    ({"no": {"x": 1}}, '"spec.no" must not validate the schema (not)'),
    ({"emb": {"spec": {}}}, "spec.emb.apiVersion: Required value"),
    ({"set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"'),
    ({"arr": [{"k": "a"}, {}]}, "spec.arr[1].k: Required value"),
]


async def test_wrong_values_are_refused(checks: Checks) -> None:
    for spec, words in WRONG:
        status = (await checks.post("one", **spec)).refused(422, "Invalid")
        assert words in status["message"], (spec, status["message"])
        assert status["message"].startswith(f'Check.{checks.group} "one" is invalid: ')
        assert status["details"]["kind"] == "Check"


# A pattern, a text that has it, one that has not.
PATTERNS = [
    ("^a$", "a", "a\n"),
    (r"^\d$", "3", "\N{ARABIC-INDIC DIGIT THREE}"),
    (r"^\w$", "e", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    (r"^\s$", "\t", "\v"),
    (r"^\p{L}$", "\N{LATIN SMALL LETTER E WITH ACUTE}", "1"),
    ("^[[:alpha:]]+$", "ab", "a1"),
    (r"^a\z", "a", "ab"),
    (r"^\x{41}\Q.*\E$", "A.*", "Aaa"),
    ("(?i)^abc$", "ABC", "abd"),
    ("(?m)^b$", "a\nb\nc", "ab"),
    ("^a{,2}b$", "a{,2}b", "aab"),
]
UNUSABLE = [
    "^(?=a)b$",
    "(?<!a)b",
    "(?>a)",
    "(?#c)a",
    r"(a)\1",
    r"a\Z",
    "a++",
    "a{2}{3}",
    "a{1001}",
    "(",
    "[a-z",
    "*a",
    "x{2,1}",
]


async def test_patterns_are_regular_expressions_of_go(api: Api, space: Space) -> None:
    group = f"p{secrets.token_hex(4)}.{space.group}"
    body = definition(group, "checks", "Check")
    (version,) = body["spec"]["versions"]
    texts = {f"p{number}": {"type": "string", "pattern": pattern} for number, (pattern, _, _) in enumerate(PATTERNS)}
    spec = {"type": "object", "properties": texts}
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": spec}}
    await api.create(DEFINITIONS, body)
    await established(api, body)
    checks = Checks(api, group, space.grouped(f"{group}/v1", "checks"))
    for number, (pattern, good, bad) in enumerate(PATTERNS):
        status = (await checks.post("bad", **{f"p{number}": bad})).refused(422, "Invalid")
        assert f"spec.p{number} in body should match '{pattern}'" in status["message"]
        assert (await checks.post(f"good{number}", **{f"p{number}": good})).code == 201, pattern
    await api.call("DELETE", f"{DEFINITIONS}/checks.{group}")


async def test_a_pattern_that_is_no_regular_expression_is_refused(api: Api, space: Space) -> None:
    body = definition(space.group, "patterns", "Pattern")
    (version,) = body["spec"]["versions"]
    for pattern in UNUSABLE:
        version["schema"]["openAPIV3Schema"] = {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": pattern}},
        }
        status = (await api.call("POST", DEFINITIONS, body, dryRun="All")).refused(422, "Invalid")
        place = "spec.validation.openAPIV3Schema.properties[a].pattern: Invalid value"
        assert place in status["message"], pattern
        assert "must be a valid regular expression, but isn't: error parsing regexp: " in status["message"]


async def test_the_whole_object_is_looked_at(checks: Checks) -> None:
    bare = custom(f"{checks.group}/v1", "Check", "one", {})
    for body in (bare, {**bare, "spec": None}):
        status = (await checks.api.call("POST", checks.path, body)).refused(422, "Invalid")
        assert status["details"]["causes"] == [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec"}
        ]
    status = (await checks.post("one", n=0, b="x")).refused(422, "Invalid")
    assert {cause["field"] for cause in status["details"]["causes"]} == {"spec.n", "spec.b"}


DEFAULTS = {"nd": "q", "od": {"x": 7}}
# A specification, and what is stored of it beside or instead of the defaults.
KEPT: list[tuple[Body, Body]] = [
    ({}, {}),
    ({"n": 2.0}, {"n": 2}),
    ({"ios": 1}, {"ios": 1}),
    ({"ios": "a"}, {"ios": "a"}),
    ({"nul": None, "s": None, "nd": None, "od": None}, {"nul": None}),
    ({"od": {"y": 1}, "nd": "r"}, {"od": {"x": 7, "y": 1}, "nd": "r"}),
    ({"arr": [{"k": "a", "u": 1}]}, {"arr": [{"k": "a", "d": 3}]}),
    ({"keep": {"a": {"b": 1}, "in": {"c": 1}}}, {"keep": {"a": {"b": 1}, "in": {}}}),
    (
        {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "u": 1}, "u": 1, "spec": {"z": 1}}},
        {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}},
    ),
]


async def test_defaults_and_what_is_dropped(checks: Checks) -> None:
    for number, (spec, kept) in enumerate(KEPT):
        answer = await checks.post(f"c{number}", **spec)
        assert answer.code == 201, (spec, answer)
        assert answer.body["spec"] == {**DEFAULTS, **kept}
        assert await checks.api.get(f"{checks.path}/c{number}") == answer.body


async def test_unknown_fields_are_warned_of_refused_or_ignored(checks: Checks) -> None:
    api, path = checks.api, checks.path
    answer = await checks.post("one", u=1, v={"w": 1})
    assert answer.headers.getall("Warning") == [
        '299 - "unknown field \\"spec.u\\""',
        '299 - "unknown field \\"spec.v\\""',
    ]
    answer = await api.call("POST", path, checks.body("two", u=1), fieldValidation="Ignore")
    assert (answer.code, "Warning" in answer.headers) == (201, False)
    answer = await api.call("POST", path, checks.body("three", u=1, v=1), fieldValidation="Strict")
    words = 'Check in version "v1" cannot be handled as a Check: strict decoding error: '
    fields = 'unknown field "spec.u", unknown field "spec.v"'
    assert answer.refused(400, "BadRequest")["message"] == words + fields
    answer = await api.call("PUT", f"{path}/one", checks.body("one", u=1), fieldValidation="Strict")
    assert 'unknown field "spec.u"' in answer.refused(400, "BadRequest")["message"]
    answer = await api.call("PATCH", f"{path}/one", {"spec": {"u": 1}}, kind=MERGE)
    assert answer.headers.getall("Warning") == ['299 - "unknown field \\"spec.u\\""']
    assert answer.body["spec"] == DEFAULTS
    answer = await api.call("PATCH", f"{path}/one", {"spec": {"u": 1}}, kind=MERGE, fieldValidation="Strict")
    assert 'strict decoding error: unknown field "spec.u"' in answer.refused(422, "Invalid")["message"]
    answer = await api.call("PATCH", f"{path}/one", {"metadata": {"u": 1}}, kind=MERGE)
    assert answer.headers.getall("Warning") == ['299 - "unknown field \\"metadata.u\\""']
    answer = await api.call("PATCH", f"{path}/one", {}, kind=MERGE, fieldValidation="Other")
    assert "fieldValidation: Unsupported value" in answer.refused(422, "Invalid")["message"]


async def test_the_status_is_pruned_and_judged(checks: Checks) -> None:
    await checks.post("one")
    answer = await checks.api.call("PATCH", f"{checks.path}/one/status", {"status": {"ok": "x"}}, kind=MERGE)
    assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == "status.ok"
    change = {"status": {"ok": True, "kopf": {"progress": {}}}}
    answer = await checks.api.call("PATCH", f"{checks.path}/one/status", change, kind=MERGE)
    assert answer.body["status"] == {"ok": True}
    assert answer.headers.getall("Warning") == ['299 - "unknown field \\"status.kopf\\""']


async def test_what_was_valid_once_may_stay(checks: Checks) -> None:
    made = await checks.api.create(checks.path, checks.body("one", n=4))
    address = f"{DEFINITIONS}/checks.{checks.group}"
    body = await checks.api.get(address)
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["n"]["maximum"] = 1
    changed = await checks.api.replace(address, body)
    # The new schema holds a moment later on the real server.
    deadline = time.monotonic() + 60
    while (await checks.post("probe", n=2)).code != 422:
        assert time.monotonic() < deadline, "the new schema never held"
        await checks.api.call("DELETE", f"{checks.path}/probe")
        await asyncio.sleep(0.01)
    await established(checks.api, changed)
    found = await checks.api.merge(f"{checks.path}/one", {"spec": {"s": "ab"}})
    assert found["spec"] == {**made["spec"], "s": "ab"}
    (await checks.api.call("PATCH", f"{checks.path}/one", {"spec": {"n": 3}}, kind=MERGE)).refused(422, "Invalid")


async def test_unknown_fields_of_built_in_kinds(api: Api, space: Space) -> None:
    answer = await api.call("POST", space.core("configmaps"), {**configmap("one"), "u": 1})
    assert answer.headers.getall("Warning") == ['299 - "unknown field \\"u\\""']
    answer = await api.call("POST", space.core("configmaps"), {**configmap("two"), "u": 1}, fieldValidation="Strict")
    words = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "u"'
    assert answer.refused(400, "BadRequest")["message"] == words
    service = {"metadata": {"name": "one", "u": 1}, "spec": {"ports": [{"port": 80, "u": 1}], "u": 2}}
    answer = await api.call("POST", space.core("services"), service)
    assert set(answer.headers.getall("Warning")) == {
        f'299 - "unknown field \\"{path}\\""' for path in ("metadata.u", "spec.ports[0].u", "spec.u")
    }
    assert "u" not in answer.body["spec"]
    assert "u" not in answer.body["spec"]["ports"][0]
