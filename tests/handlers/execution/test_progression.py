"""Which handlers are due, when the others are, and what is remembered of them on the object."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.causes.causes import Reason
from ctl.handlers.causes.patch import Patch, lay_over
from ctl.handlers.causes.views import Body
from ctl.handlers.cycle.persistence import from_record, store, to_record
from ctl.handlers.errors import PermanentError, TemporaryError
from ctl.handlers.execution.outcomes import Outcome
from ctl.handlers.execution.progression import Progress, Progression
from ctl.handlers.storage.progress import SmartProgressStorage

NOW = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
OK = Outcome(final=True)
LATER = Outcome(final=False, delay=10, exception=TemporaryError("later"))
FAILED = Outcome(final=True, exception=PermanentError("no"))
EMPTY = {"metadata": {"name": "n", "annotations": {}}}


def fresh(*ids: str, purpose: Reason = Reason.CREATE) -> Progression:
    return Progression.load(purpose, ids, ids, lambda _: None, NOW)


def test_a_new_cause_has_all_handlers_due_and_none_done() -> None:
    progression = fresh("a", "b")
    assert [progression.records[known].due(NOW) for known in ("a", "b")] == [True, True]
    assert not progression.done
    assert progression.delay(NOW) == 0


def test_a_delayed_handler_is_due_at_its_time() -> None:
    progression = fresh("a", "b")
    progression.conclude("a", OK, NOW)
    progression.conclude("b", LATER, NOW)
    assert progression.delay(NOW) == 10
    assert not progression.records["b"].due(NOW + timedelta(seconds=9.9))
    assert progression.records["b"].due(NOW + timedelta(seconds=10))
    assert progression.counts.succeeded == 1
    assert progression.counts.left == 1


def test_records_have_kopfs_form() -> None:
    progression = fresh("fn")
    progression.conclude("fn", LATER, NOW)
    assert to_record(progression.records["fn"]) == {
        "started": "2030-01-02T03:04:05.678901+00:00",
        "stopped": None,
        "delayed": "2030-01-02T03:04:15.678901+00:00",
        "purpose": "create",
        "retries": 1,
        "success": False,
        "failure": False,
        "message": "later",
        "subrefs": None,
    }


def test_naive_times_of_old_records_are_utc() -> None:
    known = from_record({"started": "2020-01-01T00:00:00", "delayed": "2020-01-01T00:01:00.5"})
    assert known.started == datetime(2020, 1, 1, tzinfo=UTC)
    assert known.due(NOW)


def test_another_reason_takes_over_the_records_of_its_handlers_and_purges_the_rest() -> None:
    storage = SmartProgressStorage()
    created = fresh("both", "create-only")
    created.conclude("both", OK, NOW)
    created.conclude("create-only", LATER, NOW)
    patch = Patch()
    store(created, Body(EMPTY), patch, storage)
    body = Body(lay_over(EMPTY, patch))

    def fetch(known: str) -> Progress | None:
        record = storage.fetch(key=known, body=body)
        return None if record is None else from_record(record)

    deleted = Progression.load(
        Reason.DELETE, ("both", "create-only", "delete-only"), ("both", "delete-only"), fetch, NOW
    )
    assert deleted.superseded[Reason.CREATE].succeeded == 1
    assert deleted.superseded[Reason.CREATE].left == 1
    assert deleted.records["both"].success
    assert deleted.records["both"].purpose is Reason.DELETE
    patch = Patch()
    store(deleted, body, patch, storage)
    annotations = patch["metadata"]["annotations"]
    assert annotations["kopf.zalando.org/create-only"] is None
    assert annotations["kopf.zalando.org/delete-only"] is not None


def test_what_the_body_holds_already_is_not_written_again() -> None:
    storage = SmartProgressStorage()
    progression = fresh("a")
    progression.conclude("a", LATER, NOW)
    patch = Patch()
    store(progression, Body(EMPTY), patch, storage)
    again = Patch()
    store(progression, Body(lay_over(EMPTY, patch)), again, storage)
    assert not again


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([OK, LATER, FAILED])), max_size=30))
def test_a_finished_handler_stays_finished_and_survives_a_restart_at_any_point(
    steps: list[tuple[str, Outcome]],
) -> None:
    storage = SmartProgressStorage()
    raw: dict[str, object] = dict(EMPTY)
    now = NOW
    finished: set[str] = set()
    for known_id, outcome in steps:
        body = Body(raw)

        def fetch(known: str, body: Body = body) -> Progress | None:
            record = storage.fetch(key=known, body=body)
            return None if record is None else from_record(record)

        # Each step is a process of its own: all it knows is on the object.
        progression = Progression.load(Reason.UPDATE, "abc", "abc", fetch, now)
        assert {known for known, record in progression.records.items() if record.finished} == finished
        if progression.records[known_id].due(now):
            progression.conclude(known_id, outcome, now)
            finished |= {known_id} if outcome.final else set()
        patch = Patch()
        store(progression, body, patch, storage)
        raw = lay_over(raw, patch)
        now += timedelta(seconds=7)
    assert Progression.load(Reason.UPDATE, "abc", "abc", lambda _: None, now).delay(now) == 0
