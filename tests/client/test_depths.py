import json
from typing import Any

import pytest

from ctl.client.depths import LEVELS, shallow
from ctl.client.errors import RequestError
from ctl.client.lists import decode_page
from ctl.client.objects import Object
from ctl.client.watch import WatchStream

from .test_watch import Given
from .wireserver import pod


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
    assert depths.restore(Object.from_raw(flat)).raw == data
