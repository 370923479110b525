"""An operator written for Kopf runs unmodified; what one of the two half handled is finished by the other."""

from pathlib import Path

import pytest
from operators.cluster import PREFIX, Examples, annotations, diff_base, progress
from operators.processes import ctl_command, kopf_command, running
from targets import Target

OPERATOR = Path(__file__).with_name("kopf_operator.py")
COMMANDS = {"ctl": ctl_command, "kopf": kopf_command}


def command(engine: str, examples: Examples) -> list[str]:
    return COMMANDS[engine]("run", "--standalone", "-n", examples.namespace, str(OPERATOR))


@pytest.mark.parametrize("engine", ["ctl", "kopf"])
async def test_an_operator_for_kopf_runs_unmodified(
    served: Target, examples: Examples, tmp_path: Path, engine: str
) -> None:
    with running(command(engine, examples), served, tmp_path / "log") as operator:
        # Once an object is handled the operator watches, so that the next one is an event and no part of a list.
        await examples.create("canary")
        await examples.handled("canary")
        await examples.create("one", {"field": "a"}, labels={"l": "1"})
        body = await examples.handled("one", field="a")
        assert body["status"] == {"first": {"done": True}}
        assert diff_base(body) == {"spec": {"field": "a"}, "metadata": {"labels": {"l": "1"}}}
        assert set(annotations(body)) == {f"{PREFIX}/last-handled-configuration"}
        assert body["metadata"]["finalizers"] == [f"{PREFIX}/KopfFinalizerMarker"]
        await examples.patch("one", {"spec": {"field": "b"}})
        await examples.handled("one", field="b")
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        operator.wait_for("event: DELETED one")
        assert operator.stop() == 0
    text = operator.text()
    assert text.count("first: one") == 1, text
    assert text.count("second: one, retry=0") == 1, text
    assert text.count("update: one, [('change', ('spec', 'field'), 'a', 'b')]") == 1, text
    assert text.count("delete: one") == 1, text
    assert text.count("event: ADDED one") == 1, text


@pytest.mark.parametrize(("before", "after"), [("kopf", "ctl"), ("ctl", "kopf")])
async def test_a_half_handled_object_is_finished_by_the_other(
    served: Target, examples: Examples, tmp_path: Path, before: str, after: str
) -> None:
    with running(command(before, examples), served, tmp_path / "before", HOLD="1") as operator:
        await examples.create("one", {"field": "a"})
        held = await examples.until(
            "one", lambda found: found is not None and progress(found).get("second", {}).get("retries", 0) >= 1
        )
        operator.kill()
    assert held is not None
    assert progress(held)["first"]["success"] is True
    assert progress(held)["second"]["success"] is False
    assert diff_base(held) is None
    with running(command(after, examples), served, tmp_path / "after") as operator:
        body = await examples.handled("one", field="a")
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        assert operator.stop() == 0
    text = operator.text()
    assert "first: one" not in text, text
    assert "second: one, retry=0" not in text, text
    assert text.count("second: one, retry=") == 1, text
    assert body["status"] == {"first": {"done": True}}
    assert f"{PREFIX}/touch-dummy" not in annotations(body)


@pytest.mark.parametrize(("before", "after"), [("kopf", "ctl"), ("ctl", "kopf")])
async def test_a_handled_object_is_left_alone_by_the_other(
    served: Target, examples: Examples, tmp_path: Path, before: str, after: str
) -> None:
    with running(command(before, examples), served, tmp_path / "before") as operator:
        await examples.create("one", {"field": "a"})
        handled = await examples.handled("one", field="a")
        assert operator.stop() == 0
    with running(command(after, examples), served, tmp_path / "after") as operator:
        operator.wait_for("event: None one")
        # A second object that is handled shows that the first had its turn.
        await examples.create("two", {"field": "b"})
        await examples.handled("two", field="b")
        found = await examples.find("one")
        assert operator.stop() == 0
    assert found is not None
    assert found["metadata"]["resourceVersion"] == handled["metadata"]["resourceVersion"]
    assert "first: one" not in operator.text()
