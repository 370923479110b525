import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.client.resources import Key
from ctl.controller.kernel import mappers, predicates
from ctl.controller.kernel.controller import Controller
from ctl.controller.kernel.reconciler import Attempt, Result, TerminalError
from ctl.controller.kernel.source import REPLAY_CHUNK, Rules
from ctl.controller.leader.gate import ManualGate
from ctl.informers.deltas import Delta
from ctl.workqueue import Exponential, RateLimitingQueue

pytestmark = pytest.mark.virtual_time

Make = Callable[..., Object]


class Log:
    """A reconciler that notes its attempts and does as it is told."""

    def __init__(self, *script: Any, work: float = 0.0) -> None:
        self.attempts: list[tuple[float, Attempt[Any]]] = []
        self.running = 0
        self.most = 0
        self._script = list(script)
        self._work = work
        self._began = asyncio.get_running_loop().time()

    async def __call__(self, key: Any, attempt: Attempt[Any]) -> Result | None:
        self.attempts.append((round(asyncio.get_running_loop().time() - self._began, 3), attempt))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self._work)
        finally:
            self.running -= 1
        action = self._script.pop(0) if self._script else None
        if isinstance(action, BaseException):
            raise action
        if callable(action):
            return await action()  # type: ignore[no-any-return]
        return action

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.attempts]

    @property
    def keys(self) -> list[Any]:
        return [attempt.key for _, attempt in self.attempts]


@contextlib.asynccontextmanager
async def running(controller: Controller[Any], grace: float = 1000) -> AsyncIterator[None]:
    await controller.start()
    try:
        yield
    finally:
        await controller.stop(grace)


def _queue() -> RateLimitingQueue[Any]:
    return RateLimitingQueue("test", limiter=Exponential(base=8, jitter=0))


async def test_changes_become_attempts_with_their_reasons(feed: Any, obj: Make) -> None:
    feed.put(obj("old"), initial=True)
    log = Log()
    controller: Controller[Key] = Controller("test", log)
    async with running(controller):
        watched = controller.watch(feed, mappers.for_object())
        await asyncio.sleep(1)
        feed.put(obj("new"))
        feed.put(obj("old", 2))
        await asyncio.sleep(1)
        assert watched.synced.is_set()
    found = [
        (str(a.key), a.number, a.priority, a.trigger.name, a.trigger.change, a.trigger.object) for _, a in log.attempts
    ]
    name = "kopfexamples.v1.kopf.dev"
    assert found == [
        ("default/old", 1, -100, name, "ADDED", f"{name} default/old"),
        ("default/new", 1, 0, name, "ADDED", f"{name} default/new"),
        ("default/old", 1, 0, name, "UPDATED", f"{name} default/old"),
    ]


async def test_many_changes_during_one_attempt_become_one_more(feed: Any, obj: Make) -> None:
    log = Log(work=10)
    controller: Controller[Key] = Controller("test", log)
    async with running(controller):
        controller.watch(feed, mappers.for_object())
        for version in range(1, 101):
            feed.put(obj("a", version))
            await asyncio.sleep(0.01)
    assert log.times == [0, 10]


async def test_an_error_that_is_no_exception_backs_off_as_others_do() -> None:
    class Panic(BaseException): ...

    log = Log(Panic("one"), Panic("two"))
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1000)
    assert log.times == [0, 8, 24]
    assert [attempt.number for _, attempt in log.attempts] == [1, 2, 3]


@pytest.mark.parametrize(("concurrency", "most", "last"), [(1, 1, 90.0), (3, 3, 30.0), (None, 10, 0.0)])
async def test_concurrency(concurrency: int | None, most: int, last: float) -> None:
    log = Log(work=10)
    controller: Controller[int] = Controller("test", log, concurrency=concurrency)
    async with running(controller):
        for key in range(10):
            controller.queue.add(key)
        await asyncio.sleep(0.1)
        assert log.running == most
    assert log.most == most
    assert log.times[-1] == last
    assert sorted(log.keys) == list(range(10))


async def test_no_task_is_kept_for_an_idle_key() -> None:
    controller: Controller[int] = Controller("test", Log(), concurrency=None)
    async with running(controller):
        await asyncio.sleep(1)
        before = len(asyncio.all_tasks())
        for key in range(1000):
            controller.queue.add(key)
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == before
        assert controller.running == ()


async def test_results_and_errors_are_settled() -> None:
    log = Log(
        Result(requeue_after=100, priority=7), ValueError("first"), ValueError("second"), None, Result(requeue_after=0)
    )
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(200)
        controller.queue.add("a")
        await asyncio.sleep(1)
    assert log.times == [0, 100, 108, 124, 200, 200]
    told = [(attempt.number, attempt.priority, attempt.trigger.name) for _, attempt in log.attempts]
    assert told == [
        (1, 0, "add"),
        (1, 7, "requeue_after"),
        (2, 7, "retry"),
        (3, 7, "retry"),
        (1, 0, "add"),
        (1, 0, "requeue_after"),
    ]
    metrics = {(sample.family.name, *sample.labels): sample.value for sample in controller.samples()}
    assert metrics["controller_runtime_reconcile_total", "test", "success"] == 2
    assert metrics["controller_runtime_reconcile_total", "test", "error"] == 2
    assert metrics["controller_runtime_reconcile_total", "test", "requeue_after"] == 2
    assert metrics["controller_runtime_reconcile_errors_total", "test"] == 2
    assert metrics["controller_runtime_active_workers", "test"] == 0


async def test_a_terminal_error_is_not_repeated_and_forgets_the_key(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(ValueError(), ValueError(), TerminalError("it is hopeless"), ValueError())
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1000)
        controller.queue.add("a")
        await asyncio.sleep(100)
    assert log.times == [0, 8, 24, 1000, 1008]
    assert "failed for good" in caplog.text
    assert "it is hopeless" in caplog.text


async def test_what_is_no_result_is_an_error_and_the_key_is_attempted_again() -> None:
    log = Log({"requeue": True})
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1)
        assert "got {'requeue': True}" in str(controller.explain("a").last_error)
        await asyncio.sleep(10)
        assert log.times == [0, 8]
        assert controller.running == ()


async def test_a_limiter_that_fails_holds_up_nobody() -> None:
    class Broken(Exponential[str]):
        def when(self, key: str, now: float, random: float) -> float:
            raise ZeroDivisionError

    log = Log(ValueError("wrong"))
    controller: Controller[str] = Controller("test", log, queue=RateLimitingQueue("test", limiter=Broken()))
    async with running(controller):
        for _ in range(2):
            controller.queue.add("a")
            await asyncio.sleep(1)
        assert log.keys == ["a", "a"]


async def test_an_attempt_has_a_deadline() -> None:
    log = Log(work=50)
    controller: Controller[str] = Controller("test", log, queue=_queue(), timeout=30)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(37)
        assert controller.explain("a").last_error == "TimeoutError()"
        assert log.running == 0
    assert log.attempts[0][1].deadline == pytest.approx(log.attempts[0][1].started + 30)
    assert controller.metrics.timeouts == 1
    assert controller.metrics.errors == 1


async def test_a_timeout_of_the_reconcilers_own_is_an_ordinary_error() -> None:
    controller: Controller[str] = Controller("test", Log(TimeoutError()), timeout=30)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(100)
    assert (controller.metrics.timeouts, controller.metrics.errors) == (0, 1)


async def test_a_cancellation_that_nobody_asked_for_is_an_error_and_the_key_is_not_lost() -> None:
    log = Log(asyncio.CancelledError())
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(100)
    assert log.times == [0, 8]
    assert controller.metrics.errors == 1


async def test_an_attempt_that_cancels_itself_is_not_made_again_without_a_pause() -> None:
    times: list[float] = []

    async def reconcile(_: str, __: Attempt[str]) -> None:
        times.append(asyncio.get_running_loop().time())
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    controller: Controller[str] = Controller("test", reconcile, queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(3.5)
    assert [time - times[0] for time in times] == pytest.approx([0, 1, 2, 3])


async def test_an_event_during_the_backoff_waits_for_its_end_unless_it_is_urgent(feed: Any, obj: Make) -> None:
    log = Log(ValueError(), ValueError())
    controller: Controller[Key] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.watch(feed, Rules(mappers.for_object(), skips_backoff=predicates.generation_changed()))
        feed.put(obj("a", 1, generation=1))
        await asyncio.sleep(1)
        feed.put(obj("a", 2, generation=1))
        await asyncio.sleep(10)
        assert log.times == [0, 8]
        feed.put(obj("a", 3, generation=2))
        await asyncio.sleep(1)
    assert log.times == [0, 8, 11]


async def test_watches_come_and_go_while_the_controller_runs(feed: Any, obj: Make) -> None:
    log = Log()
    controller: Controller[Key] = Controller("test", log)
    async with running(controller):
        watched = controller.watch(feed, Rules(mappers.for_object(), predicates.labelled({"app": None})))
        feed.put(obj("a"))
        feed.put(obj("b", labels={"app": "x"}))
        await asyncio.sleep(1)
        await watched.stop()
        await watched.stop()
        feed.put(obj("c", labels={"app": "x"}))
        await asyncio.sleep(1)
        controller.watch(feed, mappers.for_object())
        await asyncio.sleep(1)
    assert [str(key) for key in log.keys] == ["default/b", "default/a", "default/b", "default/c"]


async def test_what_was_heard_before_the_start_is_attempted_after_it(feed: Any, obj: Make) -> None:
    log = Log()
    controller: Controller[Key] = Controller("test", log)
    controller.watch(feed, mappers.for_object())
    feed.put(obj("a"))
    await asyncio.sleep(10)
    assert log.attempts == []
    async with running(controller):
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="test was started before"):
            await controller.start()
    assert log.times == [10]


async def test_no_attempt_begins_before_the_awaited_sources_have_told_everything(
    feed: Any, unsynced_feed: Any, obj: Make
) -> None:
    log = Log()
    controller: Controller[Key] = Controller("test", log)
    async with running(controller):
        controller.watch(feed, mappers.for_object(), wait=True)
        controller.watch(unsynced_feed, mappers.for_object(), wait=True)
        feed.put(obj("a"))
        await asyncio.sleep(10)
        assert log.attempts == []
        unsynced_feed.sync()
        await asyncio.sleep(1)
        assert log.times == [10]


async def test_a_watch_that_is_stopped_is_not_awaited_any_more(unsynced_feed: Any) -> None:
    log = Log()
    controller: Controller[str] = Controller("test", log)
    watched = controller.watch(unsynced_feed, lambda _: (), wait=True)
    await watched.stop()
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1)
        assert log.times == [0]


async def test_a_trigger_that_raises_loses_its_delta_only(
    feed: Any, obj: Make, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    controller: Controller[Key] = Controller("test", log)

    def trigger(delta: Any) -> Iterable[Key]:
        if delta.object.name == "bad":
            raise KeyError("app")
        return (delta.object.key,)

    async with running(controller):
        controller.watch(feed, trigger)
        for name in ("bad", "good"):
            feed.put(obj(name))
        await asyncio.sleep(1)
        errors = {
            sample.labels: sample.value
            for sample in controller.samples()
            if sample.family.name == "ctl_trigger_errors_total"
        }
        assert errors == {("test", "kopfexamples.v1.kopf.dev"): 1}
    assert [str(key) for key in log.keys] == ["default/good"]
    assert "default/bad" in caplog.text


async def test_any_stream_can_be_a_source(caplog: pytest.LogCaptureFixture) -> None:
    async def ticks() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(60)
            yield number
        raise ConnectionError("the other system is gone")

    log = Log()
    controller: Controller[str] = Controller("test", log)
    async with running(controller):
        watched = controller.follow(ticks(), lambda number: [f"key-{number}"], name="ticks")
        await asyncio.sleep(1000)
        controller.queue.add("other")
        await asyncio.sleep(1)
        await watched.stop()
    assert log.times == [60, 120, 180, 1000]
    assert [attempt.trigger.name for _, attempt in log.attempts] == ["ticks", "ticks", "ticks", "add"]
    assert "the other system is gone" in caplog.text


# The gate.


async def test_a_closed_gate_holds_attempts_and_opening_it_asks_for_everything_stored(feed: Any, obj: Make) -> None:
    gate, log = ManualGate(), Log()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    async with running(controller):
        controller.watch(feed, mappers.for_object())
        for name in ("a", "b", "c"):
            feed.put(obj(name))
        feed.remove(Key("default", "c"))
        await asyncio.sleep(10)
        assert log.attempts == []
        assert len(controller.queue) == 0
        gate.open()
        await asyncio.sleep(1)
        assert [(str(a.key), at, a.priority) for at, a in log.attempts] == [
            ("default/a", 10, -100),
            ("default/b", 10, -100),
        ]
        gate.close()
        feed.put(obj("a", 2))
        await asyncio.sleep(10)
        assert len(log.attempts) == 2
        gate.open()
        await asyncio.sleep(1)
    assert len(log.attempts) == 4


async def test_what_an_opening_has_shown_is_not_told_again_by_what_waited(feed: Any, obj: Make) -> None:
    """The copy is ahead of what the watch has taken of it: older and equal deltas would go back in time."""
    gate, told = ManualGate(), list[tuple[str, str, str | None]]()
    controller: Controller[Key] = Controller("test", Log(), gate=gate)

    def trigger(delta: Delta) -> tuple[Key, ...]:
        if gate.is_open:
            told.append((delta.object.name, delta.object.resource_version, delta.wire_type))
        return ()

    async with running(controller):
        controller.watch(feed, trigger)
        for name in ("a", "b"):
            feed.put(obj(name))
        await asyncio.sleep(1)
        gate.open()
        feed.put(obj("a", 2))
        feed.put(obj("a", 3))
        feed.remove(Key("default", "b"))
        await asyncio.sleep(1)
        assert told == [("a", "3", None), ("b", "1", "DELETED")]
        feed.put(obj("a", 4))
        await asyncio.sleep(1)
    assert told[2:] == [("a", "4", "MODIFIED")]


async def test_what_is_told_during_an_opening_is_not_shown_as_it_was_before(feed: Any, obj: Make) -> None:
    gate, told = ManualGate(), list[tuple[str, str, str | None]]()
    controller: Controller[Key] = Controller("test", Log(), gate=gate)

    def trigger(delta: Delta) -> tuple[Key, ...]:
        if gate.is_open:
            told.append((delta.object.name, delta.object.resource_version, delta.wire_type))
        if delta.object.name == "o0" and delta.initial:
            feed.put(obj("changed", 2))
            feed.remove(Key("default", "gone"))
        return ()

    async with running(controller):
        controller.watch(feed, trigger)
        for name in (*(f"o{number}" for number in range(REPLAY_CHUNK)), "changed", "gone", "other"):
            feed.put(obj(name))
        await asyncio.sleep(1)
        gate.open()
        await asyncio.sleep(1)
    assert told[REPLAY_CHUNK:] == [("changed", "2", "MODIFIED"), ("gone", "1", "DELETED"), ("other", "1", None)]


async def test_a_pause_lets_running_attempts_end_and_holds_the_others() -> None:
    gate, log = ManualGate(is_open=True), Log(work=10)
    controller: Controller[str] = Controller("test", log, gate=gate)
    async with running(controller):
        controller.queue.add("a")
        controller.queue.add("b")
        await asyncio.sleep(1)
        gate.close()
        await asyncio.sleep(100)
        assert log.times == [0]
        assert controller.metrics.results["success"] == 1
        gate.open()
        await asyncio.sleep(11)
    assert log.keys == ["a", "b"]


async def test_a_revoked_gate_cancels_attempts_and_they_are_made_again_when_it_opens() -> None:
    gate, log = ManualGate(is_open=True), Log(work=10)
    controller: Controller[str] = Controller("test", log, gate=gate, concurrency=None)
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(5)
        gate.revoke()
        await asyncio.sleep(0.1)
        assert log.running == 0
        await asyncio.sleep(94.9)
        assert log.times == [0]
        gate.open()
        await asyncio.sleep(20)
    assert log.times == [0, 100]
    assert [attempt.trigger.name for _, attempt in log.attempts] == ["add", "resumed"]
    assert [attempt.number for _, attempt in log.attempts] == [1, 1]
    assert controller.metrics.errors == 0


# The end.


async def test_stop_lets_everything_that_waits_be_done() -> None:
    log = Log(work=1)
    controller: Controller[int] = Controller("test", log)
    await controller.start()
    for key in range(5):
        controller.queue.add(key, priority=-key)
    await controller.stop(grace=100)
    assert log.keys == [0, 1, 2, 3, 4]


async def test_stop_is_bounded_and_cancels_what_is_left() -> None:
    log = Log(work=1000)
    controller: Controller[int] = Controller("test", log, concurrency=None)
    await controller.start()
    for key in range(1000):
        controller.queue.add(key)
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await controller.stop(grace=5)
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    assert log.running == 0


async def test_an_attempt_that_will_not_end_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def stubborn(_: str) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
        await release.wait()

    controller: Controller[str] = Controller("test", stubborn)
    await controller.start()
    controller.queue.add("a")
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await controller.stop(grace=5)
    assert asyncio.get_running_loop().time() - began == pytest.approx(6)
    assert "attempt of a" in caplog.text
    assert "stubborn" in caplog.text
    release.set()
    await asyncio.sleep(0)


async def test_stop_behind_a_closed_gate_does_not_wait_for_what_may_not_begin() -> None:
    gate = ManualGate()
    controller: Controller[str] = Controller("test", Log(), gate=gate)
    await controller.start()
    controller.queue.add("a")
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await controller.stop(grace=100)
    assert asyncio.get_running_loop().time() - began < 2


async def test_stop_without_a_start_is_at_once() -> None:
    controller: Controller[str] = Controller("test", Log())
    controller.queue.add("a")
    await controller.stop(grace=100)


# Looking in.


async def test_a_key_at_rest_waits_for_no_reason_after_a_change_during_its_back_off(feed: Any, obj: Make) -> None:
    log = Log(ValueError("once"))
    controller: Controller[Key] = Controller("test", log, queue=_queue())
    controller.watch(feed, mappers.for_object())
    async with running(controller):
        feed.put(obj("a"))
        await asyncio.sleep(1)
        feed.put(obj("a", 2))
        await asyncio.sleep(20)
        assert len(log.attempts) == 2
        told = controller.explain(Key("default", "a"))
        assert (told.state, told.reason) == ("at rest", None)


async def test_explain_says_where_a_key_stands(feed: Any, obj: Make) -> None:
    gate = ManualGate(is_open=True)
    controller: Controller[Key] = Controller(
        "test", Log(ValueError("no such zone"), Result(requeue_after=100), work=2), queue=_queue(), gate=gate
    )
    key = Key("default", "a")
    async with running(controller):
        controller.watch(feed, mappers.for_object(), name="things")
        assert controller.explain(key).state == "at rest"
        feed.put(obj("a"))
        await asyncio.sleep(1)
        assert controller.explain(key).state == "in work"
        await asyncio.sleep(2)
        found = controller.explain(key)
        assert (found.state, found.failures, found.last_error, found.reason) == (
            "in back-off",
            1,
            "ValueError('no such zone')",
            "retry",
        )
        assert found.next_in == pytest.approx(7)
        assert found.last_error_ago == pytest.approx(1)
        await asyncio.sleep(10)
        found = controller.explain(key)
        assert (found.state, found.failures, found.last_error, found.reason) == ("delayed", 0, None, "requeue_after")
        assert found.next_in == pytest.approx(99)


async def test_latencies_are_measured_by_trigger(feed: Any, obj: Make) -> None:
    controller: Controller[Key] = Controller("test", Log(work=3))
    async with running(controller):
        controller.watch(feed, mappers.for_object(), name="things")
        for name in ("a", "b"):
            feed.put(obj(name))
        await asyncio.sleep(10)
        found = {sample.family.name: sample for sample in controller.samples() if "things" in sample.labels}
    start, done = found["ctl_event_to_start_seconds"], found["ctl_event_to_done_seconds"]
    assert start.labels == done.labels == ("test", "things")
    assert start.value.total == pytest.approx(0 + 3)  # type: ignore[union-attr]
    assert done.value.total == pytest.approx(3 + 6)  # type: ignore[union-attr]


async def test_failures_are_logged_with_key_attempt_and_next_time(caplog: pytest.LogCaptureFixture) -> None:
    controller: Controller[str] = Controller("test", Log(ValueError("no such zone")), queue=_queue())
    async with running(controller):
        controller.queue.add("a")
        await asyncio.sleep(1)
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert record.getMessage() == (
        "The attempt failed and will be repeated. Controller test, key a, attempt 1, next in 8.000 s: ValueError('no such zone')"
    )
    assert record.exc_info is not None
    assert (record.__dict__["controller"], record.__dict__["key"]) == ("test", "a")


def test_a_concurrency_of_nothing_is_refused() -> None:
    async def reconcile(key: str) -> None: ...

    with pytest.raises(ValueError, match="concurrency"):
        Controller("test", reconcile, concurrency=0)


async def test_an_error_that_the_reconciler_defers_by_itself_counts_and_is_told() -> None:
    log = Log(Result(requeue_after=50, error=ValueError("no quota")), None)
    controller: Controller[str] = Controller("test", log, queue=_queue())
    async with running(controller):
        controller.queue.add("a", priority=3)
        await asyncio.sleep(10)
        told = controller.explain("a")
        assert (told.state, told.priority, told.failures) == ("delayed", 3, 0)
        assert told.last_error == "ValueError('no quota')"
        assert told.next_in == pytest.approx(40)
        assert (controller.metrics.errors, controller.metrics.results["error"]) == (1, 1)
        await asyncio.sleep(50)
        assert log.times == [0, 50]
        assert log.attempts[1][1].trigger.name == "retry"
        assert log.attempts[1][1].number == 1, "there was no back-off"
        assert controller.explain("a").last_error is None
    with pytest.raises(ValueError, match="needs the seconds until"):
        Result(error=ValueError())


async def test_a_waiting_key_is_told_with_its_priority_and_age() -> None:
    controller: Controller[str] = Controller("test", Log(work=100), queue=_queue())
    async with running(controller):
        controller.queue.add("busy")
        await asyncio.sleep(1)
        controller.queue.add("a", priority=-100)
        controller.queue.add("busy", priority=5)
        await asyncio.sleep(7)
        told = controller.explain("a")
        assert (told.state, told.priority, told.waited) == ("waiting", -100, 7)
        assert (controller.explain("busy").state, controller.explain("busy").priority) == ("in work", 5)
        assert controller.explain("unknown").priority is None
