from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.client.resources import Key
from ctl.client.watch import WatchEvent
from ctl.informers.deltas import Delta, DeltaKind
from ctl.informers.indexers import by_namespace
from ctl.informers.relist import Listing

from .local import Local
from .mirror import Mirror
from .world import World, bookmark, make

NAMES = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("own"), NAMES),
    st.tuples(st.just("own_delete"), NAMES),
    st.tuples(st.just("answer"), st.integers(0, 3)),
    st.tuples(st.just("answer"), st.integers(0, 3)),
    st.tuples(st.just("deliver"), st.tuples(st.integers(1, 4), st.randoms(use_true_random=False))),
    st.tuples(st.just("repeat"), st.integers(1, 5)),
    st.tuples(st.just("bookmark"), st.none()),
    st.tuples(st.just("request"), st.booleans()),
    st.tuples(st.just("page"), st.none()),
)


class Model:
    """One store under a random history, beside what each reader must see, by name, at every moment."""

    def __init__(self) -> None:
        self.world = World()
        self.store = Local()
        self.store.add_indexer("name", lambda obj: (obj.name,))
        self.mirror = Mirror()
        self.pos = 0
        # Own writes that the server has done and not yet answered; and for each name the newest version answered.
        self.unanswered: list[tuple[Object, bool]] = []
        self.answered: dict[str, int] = {}
        self.echoes: set[str] = set()
        self.gone: set[str] = set()
        self.listing: Listing | None = None
        self.listed: list[Object] = []
        self.listed_at = 0
        self.request(True)
        self.page(None)

    def run(self, steps: list[tuple[str, Any]]) -> None:
        for kind, argument in steps:
            getattr(self, kind)(argument)
            self.check()
        self.page(None)
        while self.unanswered:
            self.answer(0)
            self.check()
        self.deliver((99, None))
        self.bookmark(None)
        self.bookmark(None)
        self.check()
        assert self.store.overlaid == 0
        assert self.mirror.state() == self.world.state()

    # The server.

    def write(self, name: str) -> Object:
        return self.world.write(name)

    def delete(self, name: str) -> None:
        self.world.delete(name)

    def own(self, name: str) -> None:
        self.unanswered.append((self.world.write(name), False))

    def own_delete(self, name: str) -> None:
        obj = self.world.delete(name)
        if obj is not None:
            self.unanswered.append((obj, True))

    # What comes from it.

    def answer(self, index: int) -> None:
        """One of the first few answers: they may overtake each other."""
        if self.unanswered:
            obj, gone = self.unanswered.pop(min(index, len(self.unanswered) - 1))
            version = int(obj.resource_version)
            seen = self.store.get(obj.key)
            if not gone or (seen is not None and seen.uid == obj.uid):
                self.answered[obj.name] = max(version, self.answered.get(obj.name, 0))
            if gone:
                self.gone.add(obj.uid)
                self.store.overlay_deleted(obj.key, obj.uid)
            else:
                if version > self.pos:
                    self.echoes.add(obj.resource_version)
                assert self.store.overlay(obj)

    def deliver(self, how: tuple[int, Any]) -> None:
        count, random = how
        if self.listing is not None:
            return
        fresh = [entry for entry in self.world.history if entry[0] > self.pos][:count]
        if fresh:
            self.pos = fresh[-1][0]
        events = [WatchEvent(kind, obj) for _, kind, obj in fresh]
        if random is not None:
            random.shuffle(events)
        self.take(self.store.apply(events))

    def repeat(self, count: int) -> None:
        old = [entry for entry in self.world.history if entry[0] <= self.pos][-count:]
        if self.listing is None:
            assert self.store.apply([WatchEvent(kind, obj) for _, kind, obj in old]) == []

    def bookmark(self, _: None) -> None:
        """They come a minute apart, and no watch is that far behind: deletions that two of them do not tell of are given up."""
        self.deliver((99, None))
        if self.listing is None:
            assert self.store.apply([bookmark(self.pos)]) == []

    def request(self, consistent: bool) -> None:
        if self.listing is None:
            self.listing = Listing(self.store.cache, consistent=consistent)
            self.listed, self.listed_at = list(self.world.objects.values()), self.world.version

    def page(self, _: None) -> None:
        """The one and last page."""
        if self.listing is None:
            return
        first = not self.store.resource_version
        self.listing.add(self.listed)
        changes = self.store.finish(self.listing, self.listed_at)
        self.listing = None
        self.pos = self.listed_at
        if first:
            changes = [Delta(DeltaKind.ADDED, obj, None, True, None) for obj in self.store.delivered()]
        assert all(delta.wire_type in {None, "DELETED"} for delta in changes)
        # Of what was written since the copy's own state, only the last is seen: it may be an own write, and those before it another's.
        self.echoes -= {obj.resource_version for obj in self.listed}
        self.take(changes)

    # What everyone must see.

    def take(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            own = delta.object.resource_version in self.echoes
            assert delta.echo == (own and delta.kind is DeltaKind.UPDATED)
        if deltas:
            self.mirror.take(deltas)

    def truth(self, name: str) -> Object | None:
        """The object as it was at the newest version that was delivered or answered for it."""
        version = max(self.pos, self.answered.get(name, 0))
        past = [(kind, obj) for at, kind, obj in self.world.history if at <= version and obj.name == name]
        return None if not past or past[-1][0] == "DELETED" else past[-1][1]

    def check(self) -> None:
        for name in ("a", "b"):
            seen, truth = self.store.get(("ns", name)), self.truth(name)
            if truth is not None and truth.uid in self.gone:
                truth = None
            assert (seen and seen.resource_version) == (truth and truth.resource_version)
            assert self.store.by_index("name", name) == ([] if seen is None else [seen])
        delivered = {obj.key: (obj.uid, obj.resource_version) for obj in self.store.delivered()}
        assert delivered == self.mirror.state()
        assert self.store.nbytes == sum(len(obj.raw) for obj in self.store)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=50))
def test_readers_and_subscribers_see_what_they_must_at_every_moment(steps: list[tuple[str, Any]]) -> None:
    Model().run(steps)


def filled(*objects: Object, version: int | str = 100) -> Local:
    store = Local()
    assert store.relist(*objects, version=version) == [], "the first list is a beginning, not a change"
    return store


def relist(store: Local, *objects: Object, version: int | str = 200, consistent: bool = True) -> list[Delta]:
    return store.relist(*objects, version=version, consistent=consistent)


def shape(deltas: list[Delta]) -> list[tuple[str, str, str, str | None]]:
    return [(d.kind.name, d.object.uid, d.object.resource_version, d.wire_type) for d in deltas]


def test_keys_are_keys_and_values_are_copies() -> None:
    store = filled(make("a", 1, "u1"), make("b", 2, "u2", namespace=None))
    assert store.keys() == [Key("ns", "a"), Key(None, "b")]
    store.values().clear()
    assert len(store) == 2
    assert Key("ns", "a") in store
    assert store.get(Key(None, "a")) is None


def test_a_changed_uid_on_the_wire_is_a_deletion_and_an_addition() -> None:
    store = filled(make("a", 1, "u1"))
    deltas = store.apply([WatchEvent("MODIFIED", make("a", 101, "u2"))])
    assert shape(deltas) == [("DELETED", "u1", "1", "DELETED"), ("ADDED", "u2", "101", "MODIFIED")]
    assert deltas[0].final_state_unknown


def test_a_changed_uid_in_a_list_is_a_deletion_and_an_addition() -> None:
    store = filled(make("a", 1, "u1"), make("b", 2, "u2"))
    deltas = relist(store, make("a", 150, "u3"))
    assert shape(deltas) == [
        ("DELETED", "u1", "1", "DELETED"),
        ("ADDED", "u3", "150", None),
        ("DELETED", "u2", "2", "DELETED"),
    ]
    assert [delta.final_state_unknown for delta in deltas] == [True, False, True]


def test_an_object_that_leaves_a_selection_may_come_back() -> None:
    store = filled(make("a", 1, "u1"))
    deltas = store.apply([WatchEvent("DELETED", make("a", 101, "u1")), WatchEvent("ADDED", make("a", 102, "u1"))])
    assert [delta.kind for delta in deltas] == [DeltaKind.DELETED, DeltaKind.ADDED]


def test_a_late_event_does_not_bring_back_the_dead() -> None:
    store = filled(make("a", 1, "u1"))
    store.apply([WatchEvent("DELETED", make("a", 105, "u1"))])
    assert store.apply([WatchEvent("MODIFIED", make("a", 104, "u1"))]) == []
    assert store.apply([WatchEvent("DELETED", make("a", 105, "u1"))]) == []
    assert store.cache.stale == 2


def test_the_version_does_not_go_back_with_a_late_event() -> None:
    store = filled(make("a", 1, "u1"), make("b", 2, "u2"))
    store.apply([WatchEvent("MODIFIED", make("a", 120, "u1"))])
    assert shape(store.apply([WatchEvent("MODIFIED", make("b", 110, "u2"))])) == [("UPDATED", "u2", "110", "MODIFIED")]
    assert store.resource_version == "120"


def test_versions_that_are_no_numbers_are_trusted_in_their_order() -> None:
    store = filled(make("a", 1, "u1"), version=7)
    odd = Object(b"{}", "ns", "a", "u1", "x-9")
    assert len(store.apply([WatchEvent("MODIFIED", odd)])) == 1
    assert len(store.apply([WatchEvent("MODIFIED", Object(b"{}", "ns", "a", "u1", "x-10"))])) == 1
    assert store.apply([WatchEvent("MODIFIED", Object(b"{}", "ns", "a", "u1", "x-10"))]) == [], "the same again"
    assert store.resource_version == "x-10"
    assert not store.overlay(Object(b"{}", "ns", "a", "u1", "x-11")), "cannot be compared, so the watch is waited for"


def test_what_has_no_version_is_shown_and_does_not_say_where_to_watch_from() -> None:
    store = filled(make("a", 1, "u1"), version=7)
    assert len(store.apply([WatchEvent("MODIFIED", Object(b"{}", "ns", "a", "u1", ""))])) == 1
    store.apply([WatchEvent("BOOKMARK", Object(b"{}", None, "", "", ""))])
    assert store.resource_version == "7"
    assert len(store.apply([WatchEvent("MODIFIED", make("a", 8, "u1"))])) == 1
    assert store.resource_version == "8"


def test_what_is_no_event_of_an_object_is_counted_and_dropped() -> None:
    store = filled()
    assert store.apply([WatchEvent("WHATEVER", make("a", 101, "u1"))]) == []
    assert store.apply([WatchEvent("ADDED", Object(b"{}", None, "", "", "101"))]) == []
    assert store.cache.malformed == 2


def test_an_overlay_is_gone_when_a_list_asked_for_later_says_otherwise_whatever_the_version() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay(make("a", 180, "u1"))
    assert shape(relist(store, make("a", 40, "u1"), version=60)) == [("UPDATED", "u1", "40", None)]
    seen = store.get(("ns", "a"))
    assert seen is not None
    assert seen.resource_version == "40", "the server was restored from a backup"


def test_an_overlay_outlives_a_list_from_a_cache_that_is_older() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay(make("a", 180, "u1"))
    relist(store, make("a", 50, "u1"), version=150, consistent=False)
    seen = store.get(("ns", "a"))
    assert seen is not None
    assert seen.resource_version == "180"


def test_an_overlay_outlives_a_list_that_was_asked_for_before_the_answer() -> None:
    store = filled(make("a", 50, "u1"))
    listing = Listing(store.cache)
    listing.add([make("a", 50, "u1")])
    store.overlay(make("a", 180, "u1"))
    store.finish(listing, 150)
    assert [obj.resource_version for obj in store] == ["180"]
    assert [obj.resource_version for obj in store.delivered()] == ["50"]


def test_an_older_event_is_delivered_but_does_not_hide_the_own_write() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay(make("a", 180, "u1"))
    deltas = store.apply([WatchEvent("MODIFIED", make("a", 170, "u1"))])
    assert shape(deltas) == [("UPDATED", "u1", "170", "MODIFIED")]
    assert not deltas[0].echo
    assert [obj.resource_version for obj in store] == ["180"]
    [echo] = store.apply([WatchEvent("MODIFIED", make("a", 180, "u1"))])
    assert echo.echo
    assert echo.old is not None
    assert echo.old.resource_version == "170"
    assert store.overlaid == 0


def test_all_own_answers_are_echoes_not_only_the_last() -> None:
    store = filled(make("a", 50, "u1"))
    for version in (110, 112):
        store.overlay(make("a", version, "u1"))
    deltas = store.apply([WatchEvent("MODIFIED", make("a", version, "u1")) for version in (110, 111, 112)])
    assert [delta.echo for delta in deltas] == [True, False, True]


def test_no_echo_is_awaited_after_a_list_that_was_requested_after_the_answer() -> None:
    """A server that was restored from a backup gives the same versions to other writes."""
    store = filled(make("a", 50, "u1"))
    store.overlay(make("a", 180, "u1"))
    relist(store, make("a", 50, "u1"), version=90)
    [delta] = store.apply([WatchEvent("MODIFIED", make("a", 180, "u1"))])
    assert not delta.echo


def test_an_echo_is_awaited_after_a_list_that_was_requested_before_the_answer() -> None:
    store = filled(make("a", 50, "u1"))
    listing = Listing(store.cache)
    listing.add([make("a", 50, "u1")])
    store.overlay(make("a", 180, "u1"))
    store.finish(listing, 150)
    [delta] = store.apply([WatchEvent("MODIFIED", make("a", 180, "u1"))])
    assert delta.echo


def test_answers_in_the_wrong_order_show_the_newest() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay(make("a", 112, "u1"))
    store.overlay(make("a", 110, "u1"))
    assert [obj.resource_version for obj in store] == ["112"]


def test_a_deletion_hides_one_uid_until_its_event() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay_deleted(Key("ns", "a"), "u1")
    assert len(store) == 0
    assert shape(store.apply([WatchEvent("MODIFIED", make("a", 101, "u1"))])) == [("UPDATED", "u1", "101", "MODIFIED")]
    assert len(store) == 0
    store.apply([WatchEvent("DELETED", make("a", 102, "u1")), WatchEvent("ADDED", make("a", 103, "u2"))])
    assert [obj.uid for obj in store] == ["u2"]
    store.overlay_deleted(Key("ns", "a"), "u1")
    assert [obj.uid for obj in store] == ["u2"], "a later object of the same name is not hidden"


def test_a_deletion_that_never_comes_is_given_up() -> None:
    store = filled(make("a", 50, "u1"))
    store.overlay_deleted(Key("ns", "a"), "u1")
    store.apply([bookmark(110)])
    assert len(store) == 0
    store.apply([bookmark(120)])
    assert len(store) == 1


def test_a_created_object_is_seen_before_its_event_and_comes_as_an_addition() -> None:
    store = filled()
    store.overlay(make("a", 110, "u1"))
    assert [obj.resource_version for obj in store] == ["110"]
    assert store.delivered() == []
    [delta] = store.apply([WatchEvent("ADDED", make("a", 110, "u1"))])
    assert (delta.kind, delta.echo) == (DeltaKind.ADDED, False), "news to whoever has not heard of it"


def test_what_own_writes_made_and_deleted_stays_hidden_whichever_answer_comes_first() -> None:
    store = filled()
    store.overlay_deleted(Key("ns", "a"), "u1")
    store.overlay(make("a", 110, "u1"))
    store.apply([WatchEvent("ADDED", make("a", 110, "u1"))])
    assert store.get(Key("ns", "a")) is None
    store.apply([WatchEvent("DELETED", make("a", 120, "u1"))])
    assert (len(store), store.overlaid) == (0, 0)


def test_a_created_object_that_a_list_shows_to_be_gone_before_its_event_came_is_told_as_deleted() -> None:
    """Readers have seen it: whoever made it must hear of it to make it again."""
    store = filled()
    store.overlay(make("a", 110, "u1"))
    assert shape(relist(store, version=200)) == [("DELETED", "u1", "110", "DELETED")]
    assert len(store) == 0
    assert relist(store, version=300) == []
    store.overlay(make("a", 310, "u2"))
    assert shape(relist(store, make("a", 310, "u2"), version=400)) == [("ADDED", "u2", "310", None)]


def test_a_created_object_whose_version_cannot_be_compared_is_told_as_deleted_if_a_later_list_lacks_it() -> None:
    store = filled(version="v100x")
    assert not store.overlay(make("a", "v110x", "u1"))
    assert relist(store, version="v120x", consistent=False) == [], "nobody knows which is older"
    assert shape(relist(store, version="v200x")) == [("DELETED", "u1", "v110x", "DELETED")]
    assert relist(store, version="v300x") == []
    assert not store.overlay(make("b", "v310x", "u2"))
    assert not store.overlay(make("c", "v311x", "u3"))
    store.apply([WatchEvent("ADDED", make("b", "v310x", "u2")), WatchEvent("DELETED", make("b", "v320x", "u2"))])
    assert shape(relist(store, make("c", "v311x", "u3"), version="v400x")) == [("ADDED", "u3", "v311x", None)]
    assert shape(relist(store, version="v500x")) == [("DELETED", "u3", "v311x", "DELETED")]
    assert relist(store, version="v600x") == []
    store.apply([WatchEvent("ADDED", make("d", "v610x", "u4")), WatchEvent("DELETED", make("d", "v620x", "u4"))])
    assert not store.overlay(make("d", "v619x", "u4")), "an answer that comes late"
    assert relist(store, version="v700x") == []


def test_a_created_object_that_an_older_list_cannot_show_is_still_there() -> None:
    store = filled()
    store.overlay(make("a", 180, "u1"))
    assert relist(store, version=150, consistent=False) == []
    assert len(store) == 1


def test_the_number_of_overlays_is_bounded_and_the_oldest_goes_first() -> None:
    store = Local(limit=2)
    store.relist(version=100)
    for number in range(3):
        store.overlay(make(f"o{number}", 110 + number, f"u{number}"))
    assert sorted(obj.name for obj in store) == ["o1", "o2"]
    assert store.overlaid == 2


def test_an_unknown_indexer_is_named_in_the_error() -> None:
    store = filled(make("a", 1, "u1"))
    store.add_indexer("namespace", by_namespace)
    store.add_indexer("namespace", by_namespace)
    with pytest.raises(KeyError, match=r"'owner'.*namespace"):
        store.by_index("owner", "x")
    with pytest.raises(ValueError, match="another function"):
        store.add_indexer("namespace", lambda _: ())


def test_an_indexer_added_while_a_list_is_gathered_is_complete() -> None:
    store = filled(make("a", 1, "u1"))
    listing = Listing(store.cache)
    listing.add([make("a", 1, "u1"), make("b", 120, "u2")])
    for _ in listing.prepare("150"):
        store.add_indexer("namespace", by_namespace)
    listing.finish()
    assert sorted(obj.name for obj in store.by_index("namespace", "ns")) == ["a", "b"]


def test_objects_that_a_list_does_not_change_are_not_held_twice() -> None:
    kept = make("a", 1, "u1")
    store = filled(kept)
    listing = Listing(store.cache)
    listing.add([make("a", 1, "u1")])
    list(listing.prepare("150"))
    assert listing.finish() == []
    assert store.get(("ns", "a")) is kept
    assert [(d.kind, d.wire_type, d.object) for d in listing.relisted()] == [(DeltaKind.UPDATED, None, kept)]


def test_a_server_that_went_back_in_time_may_have_old_objects_again() -> None:
    store = filled(make("a", 50, "u1"))
    store.apply([WatchEvent("DELETED", make("a", 105, "u1"))])
    relist(store, version=60)
    assert len(store.apply([WatchEvent("ADDED", make("a", 61, "u1"))])) == 1
