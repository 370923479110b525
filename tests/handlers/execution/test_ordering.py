"""Whatever is written where, no crash between two requests leaves a record of what was not done, or loses one that is needed."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.patches import merge_patch
from ctl.handlers.causes.patch import Patch, compose
from ctl.handlers.patching.ordering import MAIN, STATUS, Parts, arrange, part

BASE = ("status", "ours", "last")
PROGRESS = ("status", "ours", "progress")
FIELDS = [BASE, PROGRESS]

Pair = tuple[dict[str, Any], dict[str, Any]]


def _parts(*there: bool) -> Parts:
    wishes: Pair = ({"status": {"a": 1}}, {"spec": {"b": None}})
    kept: Pair = ({"status": {"ours": {"last": "x"}}}, {"metadata": {"annotations": {"last": "x"}}})
    gone: Pair = ({"status": {"ours": {"progress": {"id": None}}}}, {"metadata": {"annotations": {"id": None}}})
    found = []
    for number, pair in enumerate((wishes, kept, gone)):
        merged = Patch()
        for piece, wanted in zip(pair, there[number * 2 :], strict=False):
            compose(merged, piece if wanted else {})
        found.append(merged)
    return Parts(*found)


@pytest.mark.parametrize("there", list(product([False, True], repeat=6)))
def test_each_request_keeps_the_promises(there: tuple[bool, ...]) -> None:
    parts = _parts(*there)
    requests = arrange(parts, split=True)
    sent = Patch()
    for number, request in enumerate(requests):
        assert request.content
        assert set(request.content) == {"status"} if request.endpoint == STATUS else "status" not in request.content
        if number:
            assert request.endpoint != requests[number - 1].endpoint
        compose(sent, request.content)
        if _overlaps(request.content, parts.kept):
            assert _contains(sent, parts.rest), requests
        if _overlaps(request.content, parts.gone):
            assert _contains(sent, parts.rest), requests
            assert _contains(sent, parts.kept), requests
    whole = Patch()
    for each in (parts.rest, parts.kept, parts.gone):
        compose(whole, each)
    assert dict(sent) == dict(whole)
    # One request for each endpoint, but where handlers want something in both and both remember it, and the like.
    assert len(requests) <= 4
    if not (there[2] or there[4]) or not (there[0] and there[1]):
        assert len(requests) <= 3
    if not (there[2] or there[4]):
        assert [request.endpoint for request in requests] in [[], [STATUS], [MAIN], [STATUS, MAIN]]


@pytest.mark.parametrize("there", list(product([False, True], repeat=6)))
def test_without_an_endpoint_for_the_status_it_is_one_request(there: tuple[bool, ...]) -> None:
    requests = arrange(_parts(*there), split=False)
    assert [request.endpoint for request in requests] == ([MAIN] if any(there) else [])


def _contains(sent: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(sent, dict) and all(key in sent and _contains(sent[key], wanted[key]) for key in wanted)
    return bool(sent == wanted)


def _overlaps(content: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(content, dict):
        return any(_overlaps(content[key], wanted[key]) for key in wanted if key in content)
    return not isinstance(content, dict) and not isinstance(wanted, dict)


NAMES = st.sampled_from(["status", "ours", "last", "progress", "metadata", "annotations", "a", "b"])
PATCHES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict))


@given(PATCHES, st.sets(NAMES), PATCHES)
def test_parts_are_the_whole(patch: Any, names: set[str], body: Any) -> None:
    metadata = patch.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    own = names & set(annotations) if isinstance(annotations, dict) else set()
    before = repr(patch)
    parts = part(patch, own, FIELDS)
    assert repr(patch) == before
    whole = Patch()
    for each in (parts.rest, parts.kept, parts.gone):
        compose(whole, each)
    assert merge_patch(body, dict(whole)) == merge_patch(body, patch)
    assert _contains(patch, parts.kept)
    assert _contains(patch, parts.gone)


def test_records_come_and_go_one_by_one() -> None:
    patch = {
        "status": {"ours": {"progress": {"a": {"retries": 1, "message": None}, "b": None}, "last": "{}"}, "x": 1},
        "metadata": {"annotations": {"k/a": "{}", "k/b": None, "theirs": None}},
        "spec": {"field": None},
    }
    parts = part(patch, ["k/a", "k/b"], FIELDS)
    assert parts.rest == {"status": {"x": 1}, "metadata": {"annotations": {"theirs": None}}, "spec": {"field": None}}
    assert parts.kept == {
        "status": {"ours": {"progress": {"a": {"retries": 1, "message": None}}, "last": "{}"}},
        "metadata": {"annotations": {"k/a": "{}"}},
    }
    assert parts.gone == {"status": {"ours": {"progress": {"b": None}}}, "metadata": {"annotations": {"k/b": None}}}
