"""The rules of peering: records, the decision, and the promise that of those who see the same one at most acts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.resources import Resource
from ctl.controller.peering.rules import (
    Peer,
    PeeringDecision,
    Rank,
    choose_host,
    compose_identity,
    decide,
    keep_alive_pause,
    manual_identity,
    read_peers,
    relevant,
)

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def _ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def _read(record: Any) -> Peer:
    (peer,) = read_peers({"x": record}, NOW)
    return peer


def test_a_record_is_written_as_kopf_reads_it() -> None:
    peer = Peer("root@vm/20310506070809/abc", NOW, priority=7, lifetime=60)
    assert peer.record() == {"priority": 7, "lifetime": 60, "lastseen": "2031-05-06T07:08:09.000000+00:00"}
    assert list(peer.record()) == ["priority", "lifetime", "lastseen"]
    assert Peer("x", NOW, lease="default/ctl-x").record()["lease"] == "default/ctl-x"


def test_absent_fields_have_defaults_and_unknown_ones_are_ignored() -> None:
    assert _read({}) == Peer("x", NOW, priority=0, lifetime=60)
    assert _read({"priority": 5, "colour": "red"}) == Peer("x", NOW, priority=5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2031-05-06T07:08:09.5", 0.5),
        ("2031-05-06T07:08:10Z", 1),
        ("2031-05-06T09:08:09+02:00", 0),
        ("2031-05-06 07:08:09", 0),
    ],
)
def test_times_are_in_utc_unless_they_say_otherwise(text: str, seconds: float) -> None:
    assert _read({"lastseen": text}).lastseen == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("junk", [None, [], {}, "later", "9" * 9000, 1e300, "0001-01-01T00:00:00+14:00"])
def test_what_cannot_be_read_has_its_default(junk: Any) -> None:
    peer = _read({"priority": junk if junk != 1e300 else {}, "lifetime": junk, "lastseen": junk, "lease": junk})
    assert peer.priority == 0
    assert peer.lifetime == (10**9 if junk == 1e300 else 60)
    assert peer.lastseen == NOW
    assert not peer.is_dead(NOW)


@pytest.mark.parametrize("status", [None, [], "text", 5, {"x": None}, {"x": "y"}, {"conditions": []}])
def test_what_is_no_record_is_passed_over(status: Any) -> None:
    assert read_peers(status, NOW) == []


def test_a_record_counts_until_its_lifetime_has_passed() -> None:
    assert not _read({"lastseen": _ago(59.9)}).is_dead(NOW)
    assert _read({"lastseen": _ago(60)}).is_dead(NOW)
    assert _read({"lifetime": 0}).is_dead(NOW)
    assert not _read({"lastseen": "9999-12-31T23:59:59Z", "lifetime": 10**12}).is_dead(NOW)


def test_a_higher_priority_is_yielded_to_and_a_lower_one_is_not() -> None:
    high, low = Peer("high", NOW, 10), Peer("low", NOW, -10)
    own = Rank("me", 0)
    assert decide([low], own, NOW) == PeeringDecision()
    decision = decide([low, high], own, NOW)
    assert not decision.is_conflict
    assert decision.blockers == (high,)
    assert decision.until == NOW + timedelta(seconds=60)


def test_the_same_priority_pauses_both_and_names_the_other() -> None:
    decision = decide([Peer("me", NOW), Peer("you", NOW)], Rank("me"), NOW)
    assert decision.is_conflict
    assert [peer.identity for peer in decision.blockers] == ["you"]


def test_operators_that_share_the_objects_by_shards_have_no_conflict() -> None:
    peers = [Peer("you", NOW)]
    assert decide(peers, Rank("me", shares=True), NOW) == PeeringDecision()
    assert decide([Peer("you", NOW, 1)], Rank("me", shares=True), NOW).blockers


def test_the_dead_do_not_count_and_are_to_be_removed() -> None:
    dead = Peer("dead", NOW - timedelta(seconds=61), 100)
    assert decide([dead], Rank("me"), NOW) == PeeringDecision(obsolete=("dead",))
    own = Peer("me", NOW - timedelta(hours=1))
    assert decide([own], Rank("me"), NOW) == PeeringDecision()


def test_replicas_of_one_lease_never_pause_each_other() -> None:
    former = Peer("former", NOW, 100, lease="ns/lease")
    foreign = Peer("foreign", NOW, 0, lease="ns/other")
    assert decide([former], Rank("me", 0, "ns/lease"), NOW) == PeeringDecision(obsolete=("former",))
    assert decide([former], Rank("me", 0), NOW).blockers == (former,)
    assert decide([foreign], Rank("me", 0, "ns/lease"), NOW).is_conflict


_PEERS = st.lists(
    st.builds(
        Peer,
        st.sampled_from("abcdef"),
        st.integers(-200, 50).map(lambda seconds: NOW + timedelta(seconds=seconds)),
        st.integers(-2, 2),
        st.integers(0, 100),
        st.sampled_from(["", "", "ns/lease"]),
    ),
    unique_by=lambda peer: peer.identity,
    max_size=6,
)


@given(_PEERS)
def test_of_living_operators_who_see_the_same_records_one_at_most_acts(peers: list[Peer]) -> None:
    """One operator's replicas count as one: there the Lease decides."""
    alive = [peer for peer in peers if not peer.is_dead(NOW)]
    decisions = {peer: decide(peers, Rank(peer.identity, peer.priority, peer.lease), NOW) for peer in alive}
    free = {peer.lease or peer.identity for peer, decision in decisions.items() if not decision.blockers}
    assert len(free) <= 1
    top = [peer for peer in alive if peer.priority == max(other.priority for other in alive)]
    if len(top) == 1:
        assert not decisions[top[0]].blockers


@given(_PEERS, st.integers(-2, 2))
def test_a_pause_ends_when_its_records_have(peers: list[Peer], priority: int) -> None:
    own, now, steps = Rank("me", priority), NOW, 0
    while (decision := decide(peers, own, now)).blockers:
        assert decision.until is not None
        assert decision.until > now
        now, steps = decision.until, steps + 1
        assert steps <= len(peers)
    assert set(decision.obsolete) == {peer.identity for peer in peers if peer.is_dead(now)}


@given(_PEERS)
def test_records_are_read_as_they_were_written(peers: list[Peer]) -> None:
    assert read_peers({peer.identity: peer.record() for peer in peers}, NOW) == peers


@given(st.integers(-5, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_record_is_renewed_before_it_ends(lifetime: int, chance: float) -> None:
    pause = keep_alive_pause(lifetime, chance)
    assert pause >= 1
    assert lifetime <= 6 or lifetime - 10 <= pause <= lifetime - 5 or pause == 1


def test_only_peering_resources_of_the_scope_count_of_both_groups() -> None:
    found = [
        Resource(group, version, plural)
        for group in ("kopf.dev", "zalando.org", "other.dev")
        for version in ("v1", "v2")
        for plural in ("clusterkopfpeerings", "kopfpeerings", "kopfexamples")
    ]
    assert relevant(found, clusterwide=True) == {
        Resource("kopf.dev", "v1", "clusterkopfpeerings"),
        Resource("zalando.org", "v1", "clusterkopfpeerings"),
    }
    assert relevant(found, clusterwide=False) == {
        Resource("kopf.dev", "v1", "kopfpeerings"),
        Resource("zalando.org", "v1", "kopfpeerings"),
    }


def test_identities() -> None:
    assert compose_identity("root", "vm", NOW, "inz") == "root@vm/20310506070809/inz"
    assert manual_identity("root", "vm") == "root@vm"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["localhost"], "fallback"),
        ([], "fallback"),
        (["localhost.localdomain", "127.0.0.1", "::1", "10.0.0.7"], "fallback"),
        (["short", "long.example.com"], "long.example.com"),
        (["localhost", "short"], "short"),
        (["mac.local"], "mac"),
        (["box.localdomain"], "box"),
    ],
)
def test_the_host_is_named_by_what_says_most(names: list[str], expected: str) -> None:
    assert choose_host(names, "fallback") == expected
