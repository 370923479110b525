import asyncio
import json
import time
from typing import Any

import pytest

from ctl.client import deep_json, lists, watch
from ctl.client.deep_json import LEVELS, shallow
from ctl.client.errors import Conflict, RequestError
from ctl.client.lists import decode_page
from ctl.client.objects import Object
from ctl.client.watch import WatchEvent, WatchStream
from ctl.informers.transform import drop_managed_fields

from .test_watch import Given
from .wireserver import PODS, pod, replies, talking


def deep(levels: int, text: str = "") -> bytes:
    """An object of so many levels; its strings look like JSON."""
    body = pod("deep", "7", labels={"tricky": text})
    return json.dumps(body).encode()[:-1] + b', "spec": ' + b'{"a": [1, ' * levels + b'"}]"' + b"]}" * levels + b"}"


def page(*items: bytes) -> bytes:
    return (
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[' + b",".join(items) + b"]}"
    )


@pytest.mark.parametrize("levels", [1, 90, 100, 110, 400, 5000, 50_000])
@pytest.mark.parametrize("text", ["", 'a"}]{', "\\", "cut0", 'cutt"', "é\u2028"])
def test_one_object_that_is_nested_too_deeply_hides_no_other(levels: int, text: str) -> None:
    plain = json.dumps(pod("plain", "8")).encode()
    found = decode_page(page(plain, deep(levels, text), plain), "GET x")
    assert [obj.raw for obj in found.items] == [plain, deep(levels, text), plain]
    assert [obj.key.name for obj in found.items] == ["plain", "deep", "plain"]
    assert (found.resource_version, found.size) == ("9", len(page(plain, deep(levels, text), plain)))


async def test_nor_does_its_event() -> None:
    lines = [b'{"type":"MODIFIED","object":' + raw + b"}\n" for raw in (deep(5000), deep(1))]
    batch = await anext(WatchStream(Given(b"".join(lines)), "pods"))
    assert [(event.object.name, event.object.raw) for event in batch] == [("deep", deep(5000)), ("deep", deep(1))]


def test_what_is_deep_and_no_list_is_said_to_be_none() -> None:
    with pytest.raises(RequestError, match="expected a list of objects"):
        decode_page(deep(5000), "GET x")
    with pytest.raises(RequestError, match="expected a list of objects"):
        decode_page(b'{"items":[' + b'{"a":' * 5000, "GET x")


async def test_an_event_that_is_deep_and_cut_is_a_broken_stream() -> None:
    line = b'{"type":"MODIFIED","object":' + b'{"a":' * 5000 + b"\n"
    with pytest.raises(RequestError, match="delivered no watch event"):
        await anext(WatchStream(Given(line), "pods"))


def test_what_is_shallow_stays_as_it_is() -> None:
    nested: Any = 1
    for _ in range(LEVELS - 1):
        nested = [nested]
    data = json.dumps({"metadata": {"name": "x"}, "kind": 'a"[{', "x": nested}).encode()
    flat, depths = shallow(data)
    assert flat == data
    assert depths.restore(Object.from_raw(flat).raw) == data


LARGE = 1_400_000
"""About what an API server takes for one object."""
FULL = {
    "a mark that grows": b'"cut' + b"t" * LARGE + b'"',
    "each mark": b'"' + b"".join(b"cut%d:" % number for number in range(LARGE // 10)) + b'"',
    "one mark often": b'"' + b"cut0:" * (LARGE // 5) + b'"',
    "a long number in a mark": b'"cut' + b"0" * LARGE + b':"',
    "quotes": b'"' + rb"\"" * (LARGE // 2) + b'"',
    "backslashes": b'"' + rb"\\" * (LARGE // 2) + b'"',
    "characters beyond the first plane": b'"' + rb"\ud83d\ude00" * (LARGE // 12) + b'"',
    "brackets in a string": b'"' + b"[{" * (LARGE // 2) + b'"',
    "short strings": b"[" + b'"",' * (LARGE // 3) + b"1]",
    "small mappings": b"[" + b"{}," * (LARGE // 3) + b"1]",
    "small lists below the limit": b"[" * 300 + b"[]," * (LARGE // 3) + b"1" + b"]" * 300,
    "small lists at the limit": b"[" * (LEVELS - 2) + b"[]," * (LARGE // 3) + b"1" + b"]" * (LEVELS - 2),
    "nothing but levels": b"[" * (LARGE // 2) + b"]" * (LARGE // 2),
}


@pytest.mark.parametrize("case", FULL)
def test_what_is_nested_is_read_in_time_whatever_is_beside_it(case: str) -> None:
    """A second or two; what is quadratic takes minutes."""
    end = b',"data":' + FULL[case] + b',"spec":' + b"[" * 3000 + b"]" * 3000 + b"}"
    raw = json.dumps(pod("deep", "7")).encode()[:-1] + end
    plain = json.dumps(pod("plain", "8")).encode()
    began = time.perf_counter()
    found = decode_page(page(raw, plain), "GET x")
    assert [obj.raw for obj in found.items] == [raw, plain]
    lines = [b'{"type":"MODIFIED","object":' + raw + b"}\n", b'{"type":"ADDED","object":' + plain + b"}\n"]
    batch = asyncio.run(first(WatchStream(Given(b"".join(lines)), "pods")))
    assert [event.object.raw for event in batch] == [raw, plain]
    obj = Object.from_raw(raw)
    assert (obj.raw, obj.key.name, obj.metadata().uid, obj.stub()["kind"]) == (raw, "deep", "uid-deep", "Pod")
    assert time.perf_counter() - began < 20


async def first(stream: WatchStream) -> list[WatchEvent]:
    return await anext(stream)


@pytest.mark.parametrize("levels", [5000, 0])
def test_what_is_no_json_is_refused_in_time(levels: int) -> None:
    began = time.perf_counter()
    for end in (rb"\"" * (LARGE // 2), b'"' * (LARGE | 1), b"[" * LARGE, b"]" * LARGE, b"\\" * (LARGE | 1)):
        with pytest.raises(RequestError, match="expected a list of objects"):
            decode_page(b'{"kind":"PodList","items":[' + b"[" * levels + b"]" * levels + b'],"x":"' + end, "GET x")
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize("spec", [b'"x"', b"[" * 5000 + b"]" * 5000])
async def test_half_a_character_hides_no_object(spec: bytes) -> None:
    """A server in Go would have stored U+FFFD."""
    strange = rb'"\ud800 \\ud800 \uDC00\ud83d\ude00 \ud83d\u0041"'
    raw = json.dumps(pod("strange", "7")).encode()[:-1] + b',"text":' + strange + b',"spec":' + spec + b"}"
    text = "\ufffd \\ud800 \ufffd\U0001f600 \ufffdA"
    line = b'{"type":"MODIFIED","object":' + raw + b"}\n"
    [event] = await anext(WatchStream(Given(line), "pods"))
    for obj in (decode_page(page(raw), "GET x").items[0], event.object, Object.from_raw(raw)):
        assert (obj.name, obj.uid) == ("strange", "uid-strange")
        assert json.loads(obj.raw.replace(spec, b"1"))["text"] == text


async def test_the_answer_to_a_write_of_what_is_deep_is_an_object() -> None:
    async with talking(replies((200, deep(5000)))) as (_server, client):
        stored = await client.patch(PODS, "deep", "ns", {})
        assert stored.raw == deep(5000)
        left = await client.delete(PODS, "deep", "ns")
        assert left is not None
        assert left.resource_version == "7"
        assert (await client.get(PODS, "deep", "ns")).metadata().labels == {"tricky": ""}
    body = b'{"kind":"Status","status":"Success","details":' + b'{"a":' * 5000 + b"1" + b"}" * 5001
    async with talking(replies((200, body), (409, body))) as (_server, client):
        assert await client.delete(PODS, "deep", "ns") is None
        with pytest.raises(Conflict):
            await client.delete(PODS, "deep", "ns")


def test_managed_fields_are_taken_off_what_is_deep() -> None:
    fields = b'[{"fieldsV1":' + b'{"f:a":' * 4000 + b"{}" + b"}" * 4000 + b"}]"
    raw = deep(5000).replace(b'"labels"', b'"managedFields": ' + fields + b', "labels"')
    kept = drop_managed_fields(Object.from_raw(raw)).raw
    assert b"fieldsV1" not in kept
    assert kept.endswith(deep(5000)[-1000:])
    assert Object.from_raw(kept).metadata().labels == {"tricky": ""}


async def test_a_deep_event_is_cut_once_for_all_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[int] = []

    def counting(data: bytes) -> Any:
        cut.append(len(data))
        return shallow(data)

    for module in (deep_json, watch, lists):
        monkeypatch.setattr(module, "shallow", counting)
    raw = deep(5000).replace(b'"labels"', b'"managedFields": [{"fieldsV1": {}}], "labels"')
    [event] = await anext(WatchStream(Given(b'{"type":"MODIFIED","object":' + raw + b"}\n"), "pods"))
    for obj in (event.object, decode_page(page(raw, deep(1)), "GET x").items[0]):
        slim = drop_managed_fields(obj)
        assert b"fieldsV1" not in slim.raw
        assert slim.raw.endswith(deep(5000)[-50_000:])
        assert slim.metadata().labels == {"tricky": ""}
        assert slim.stub()["kind"] == "Pod"
    assert len(cut) == 2, "once for the event and once for the page"


def test_few_outlines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_json, "REMEMBERED", 1_000_000)
    for number in range(20):
        assert Object.from_raw(deep(5000, f"{number}" * 50_000)).metadata().name == "deep"
    assert sum(len(raw) + len(flat) for raw, (flat, _) in deep_json._outlines.items()) <= 1_000_000


def test_each_version_of_a_deep_object_is_cut_once_however_often_it_is_looked_at() -> None:
    wide = b"[" * 1200 + b",".join([b"[]"] * (LARGE // 3)) + b"]" * 1200
    obj = Object.from_raw(json.dumps(pod("deep", "7")).encode()[:-1] + b', "spec": ' + wide + b"}")
    began = time.thread_time()
    assert obj.metadata().labels == pod("deep", "7")["metadata"].get("labels")
    assert obj.stub()["metadata"]["name"] == "deep"
    for _ in range(20):
        obj.metadata()
        obj.stub()
    looked = time.thread_time() - began
    began = time.thread_time()
    shallow(obj.raw)
    assert looked < 5 * (time.thread_time() - began), "as it takes to cut it some times, not 40 times"


@pytest.mark.parametrize("text", ['{"a":[[1,[2]],{"b":{}}],"c":[]}', '[[["x]]"]],[{"y":"{{"}]]', "[[1],[[2]],[[[3]]]]"])
def test_what_is_cut_out_is_put_back_wherever_the_limit_meets_a_row_of_brackets(text: str) -> None:
    for levels in range(LEVELS - 5, LEVELS + 3):
        data = b'{"metadata":{"name":"x"},"x":' + b"[" * levels + text.encode() + b"]" * levels + b"}"
        flat, depths = shallow(data)
        assert depths.restore(flat) == data
        nested, depth = json.loads(flat)["x"], 1
        while isinstance(nested, list) and nested and isinstance(nested[0], list):
            nested, depth = nested[0], depth + 1
        assert depth <= LEVELS
