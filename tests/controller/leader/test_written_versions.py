import json

import pytest

from ctl.client.resources import Resource
from ctl.controller.leader.written_versions import LIMIT, WRITTEN_ANNOTATION, WrittenVersions, read_versions

PODS = Resource("", "v1", "pods")
MAPS = Resource("", "v1", "configmaps")


def _told(written: WrittenVersions) -> dict[str, str]:
    found: dict[str, str] = json.loads(written.text())
    return found


def test_the_newest_version_of_each_resource_is_told_compactly() -> None:
    written = WrittenVersions()
    assert written.text() == "{}"
    for version in ("99", "101", "100"):
        written.note(PODS, version)
    written.note(MAPS, "5")
    assert written.text() == '{"configmaps":"5","pods":"101"}'


def test_versions_of_a_kind_share_an_entry() -> None:
    written = WrittenVersions()
    written.note(Resource("kopf.dev", "v1", "kopfexamples"), "7")
    written.note(Resource("kopf.dev", "v2", "kopfexamples"), "8")
    assert _told(written) == {"kopfexamples.kopf.dev": "8"}


def test_what_cannot_be_compared_is_the_last() -> None:
    written = WrittenVersions()
    for version in ("abc", "12", "0x"):
        written.note(PODS, version)
    assert _told(written) == {"pods": "0x"}


def test_what_nobody_knows_stays_unknown_whatever_is_answered_later() -> None:
    """A write whose answer was lost may be applied after those that were answered: none of them covers it."""
    written = WrittenVersions()
    written.note(PODS, "7")
    written.note(PODS, None)
    assert _told(written) == {"pods": "?"}
    written.inherit({"pods": "5"})
    assert _told(written) == {"pods": "?"}, "an older version tells nothing of the lost write"
    written.note(PODS, "9")
    assert _told(written) == {"pods": "?"}
    written.inherit({"pods": "10"})
    written.note(PODS, "11")
    assert _told(written) == {"pods": "?"}


def test_what_a_predecessor_did_not_know_is_covered_by_the_first_write_of_a_successor() -> None:
    """The predecessor's writes are all applied, or never, by then."""
    written = WrittenVersions()
    written.inherit({"pods": None})
    assert _told(written) == {"pods": "?"}
    written.inherit({"pods": None})
    assert _told(written) == {"pods": "?"}
    written.note(PODS, "9")
    assert _told(written) == {"pods": "9"}


def test_a_legacy_is_handed_on() -> None:
    written = WrittenVersions()
    written.note(PODS, "7")
    written.inherit({"pods": "5", "configmaps": "3", "secrets": None})
    assert _told(written) == {"pods": "7", "configmaps": "3", "secrets": "?"}


def test_those_written_longest_ago_are_forgotten_first() -> None:
    written = WrittenVersions()
    for number in range(LIMIT):
        written.note(Resource("x.dev", "v1", f"r{number}"), "1")
    written.note(Resource("x.dev", "v1", "r0"), "2")
    written.note(PODS, "1")
    told = _told(written)
    assert len(told) == LIMIT
    assert "r0.x.dev" in told
    assert "r1.x.dev" not in told


def test_it_is_read_as_it_was_written() -> None:
    written = WrittenVersions()
    written.note(PODS, "7")
    written.note(MAPS, None)
    assert read_versions({WRITTEN_ANNOTATION: written.text(), "other": "x"}) == {"pods": "7", "configmaps": None}


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '"text"', "null", '{"pods": 7}'])
def test_what_cannot_be_read_is_nothing(text: str) -> None:
    assert read_versions({WRITTEN_ANNOTATION: text}) == {}
    assert read_versions(None) == {}
