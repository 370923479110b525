"""The examples of daemons and timers behave the same on every server."""

from pathlib import Path

from operators.cluster import PREFIX, Examples
from operators.processes import ctl_command, running
from targets import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FINALIZER = f"{PREFIX}/KopfFinalizerMarker"


def example(name: str, examples: Examples) -> list[str]:
    return ctl_command("run", "-v", "-n", examples.namespace, str(EXAMPLES / name / "example.py"))


async def test_14_daemons(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("14-daemons", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "a"})
        operator.wait_for("The thread sees 'a'.")
        operator.wait_for("The task sees 'a'.")
        body = await examples.until("one", lambda found: found is not None and "status" in found)
        assert body is not None
        assert body["status"] == {"until_it_is_done": {"attempts": 3}}
        assert body["metadata"]["finalizers"] == [FINALIZER]
        await examples.patch("one", {"spec": {"field": "b"}, "metadata": {"labels": {"watched": "yes"}}})
        operator.wait_for("The thread sees 'b'.")
        operator.wait_for("The task sees 'b'.")
        operator.wait_for("The object is watched.")
        await examples.patch("one", {"metadata": {"labels": {"watched": None}}})
        operator.wait_for("The object is watched no more: DaemonStoppingReason.FILTERS_MISMATCH.")
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        text = operator.text()
        assert operator.stop() == 0
    assert text.count("The thread ends.") == 1
    assert text.count("The task is cancelled.") == 1
    assert text.count("Daemon 'in_a_task' is signalled to exit gracefully.") == 1
    assert text.count("Daemon 'in_a_task' is signalled to exit by force.") == 1
    assert text.count("Daemon 'until_it_is_done' is invoked.") == 3
    assert "orphaned" not in text


async def test_14_daemons_end_with_the_operator(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("14-daemons", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "a"})
        operator.wait_for("The thread sees 'a'.")
        operator.wait_for("The task sees 'a'.")
        assert operator.stop() == 0
    text = operator.text()
    assert text.count("The thread ends.") == 1
    assert text.count("The task is cancelled.") == 1
    assert "Traceback" not in text
    body = await examples.find("one")
    assert body is not None
    assert body["metadata"]["finalizers"] == [FINALIZER]


async def test_15_timers(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("15-timers", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "a"})
        operator.wait_for("The field is 'a'.")
        first = await examples.until("one", lambda found: found is not None and "status" in found)
        assert first is not None
        assert first["status"]["when_it_rests"]["field"] == "a"
        await examples.patch("one", {"spec": {"field": "b"}})
        operator.wait_for("The field is 'b'.")

        def holds(found: object) -> bool:
            return isinstance(found, dict) and found["status"]["when_it_rests"]["field"] == "b"

        await examples.until("one", holds)
        operator.wait_for("Timer 'with_errors' succeeded.")
        operator.wait_for_count("Timer 'every_second' succeeded.", 4)
        operator.wait_for_count("Timer 'on_a_grid' succeeded.", 2)
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        text = operator.text()
        assert operator.stop() == 0
    assert text.count("Timer 'when_it_rests' succeeded.") == 2
    assert text.count("Timer 'with_errors' is invoked.") >= 3
