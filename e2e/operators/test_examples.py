"""The examples behave the same on every server: each handler called once, the same results and annotations."""

import asyncio
import base64
import sys
import time
from pathlib import Path

import pytest
import yaml
from operators.cluster import PREFIX, SECONDS, Examples, annotations, diff_base, progress
from operators.processes import Operator, ctl_command, running
from targets import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str, examples: Examples) -> list[str]:
    return ctl_command("run", "-v", "-n", examples.namespace, str(EXAMPLES / name / "example.py"))


def count(operator: Operator, text: str) -> int:
    return operator.text().count(text)


async def test_01_minimal(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("01-minimal", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "value"})
        body = await examples.handled("one", field="value")
        assert body["status"] == {"create_fn": {"message": "hello, one"}}
        assert set(annotations(body)) == {f"{PREFIX}/last-handled-configuration"}
        assert annotations(body)[f"{PREFIX}/last-handled-configuration"] == '{"spec":{"field":"value"}}\n'
        assert "finalizers" not in body["metadata"]
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        assert operator.stop() == 0
    assert count(operator, "one was created and wants 'value'") == 1
    assert count(operator, "Handler 'create_fn' succeeded.") == 1
    assert count(operator, "Creation is processed: 1 succeeded; 0 failed.") == 1


async def test_03_exceptions(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("03-exceptions", examples), served, tmp_path / "log") as operator:
        await examples.create("one")
        body = await examples.handled("one", field="value")
        assert body["status"] == {"eventual_success": {"attempts": 3}}
        operator.wait_for("Creation is processed: 2 succeeded; 3 failed.")
        assert operator.stop() == 0
    for handler, calls in {
        "instant_failure": 1,
        "eventual_success": 3,
        "eventual_failure": 2,
        "ignored_error": 1,
        "fatal_error": 1,
    }.items():
        assert count(operator, f"Handler '{handler}' is invoked.") == calls, operator.text()


async def test_05_handlers(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("05-handlers", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "a"})
        body = await examples.handled("one", field="a")
        assert body["metadata"]["finalizers"] == [f"{PREFIX}/KopfFinalizerMarker"]
        assert body["status"] == {"create_fn_2": {"created": True}}
        await examples.patch("one", {"spec": {"field": "b"}})
        await examples.handled("one", field="b")
        await examples.patch("one", {"spec": {"other": "c"}})
        await examples.handled("one", other="c")
        operator.stop()
    text = operator.text()
    for handler, calls in {"create_fn_1": 1, "create_fn_2": 1, "update_fn": 2, "field_fn/spec.field": 2}.items():
        assert text.count(f"Handler '{handler}' succeeded.") == calls, text
    assert "changed: [('change', ('spec', 'field'), 'a', 'b')]" in text
    assert "the field changed: None -> 'a'" in text
    assert "the field changed: 'a' -> 'b'" in text
    assert "resume_fn" not in text
    with running(example("05-handlers", examples), served, tmp_path / "again") as operator:
        operator.wait_for("one was here before this operator")
        operator.wait_for("Resuming is processed: 1 succeeded; 0 failed.")
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        assert operator.stop() == 0
    assert count(operator, "one is about to be deleted") == 1
    assert count(operator, "Deletion is processed: 1 succeeded; 0 failed.") == 1
    assert "create_fn_1" not in operator.text()


async def test_08_events(served: Target, examples: Examples, tmp_path: Path) -> None:
    await examples.create("old")
    with running(example("08-events", examples), served, tmp_path / "log") as operator:
        operator.wait_for("event None of old")
        await examples.create("new", labels={"watched": "yes"})
        operator.wait_for("event ADDED of new")
        body = await examples.until("new", lambda found: found is not None and found.get("status") == {"seen": True})
        assert body is not None
        assert annotations(body) == {}
        assert diff_base(body) is None
        assert progress(body) == {}
        operator.wait_for("event MODIFIED of new")
        await examples.delete("new")
        operator.wait_for("event DELETED of new")
        assert operator.stop() == 0
    assert count(operator, "event ADDED of new") == 1
    assert count(operator, "event DELETED of new") == 1
    assert count(operator, "event None of old") == 1


async def test_13_posting(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("13-posting", examples), served, tmp_path / "log") as operator:
        await examples.create("one")
        await examples.handled("one", field="value")
        operator.wait_for_count("Timer 'again' succeeded.", 8)
        # So it says no more.
        await examples.delete("one")
        await examples.until("one", lambda found: found is None)
        said = count(operator, "Timer 'again' is invoked.")
        # A repetition is counted later than it is said.
        deadline = time.monotonic() + SECONDS
        while True:
            found = await examples.events("one")
            counts = {event["reason"]: event.get("count") for event in found}
            if counts.get("Again") == said:
                break
            assert time.monotonic() < deadline, (said, found)
            await asyncio.sleep(0.1)
        assert operator.stop() == 0
    told = {event["reason"]: (event["type"], event["message"]) for event in found}
    assert told == {
        "Noticed": ("Normal", "The field is 'value'."),
        "Careful": ("Warning", "This is only an example."),
        "ValueError": ("Error", "The field is no number: invalid literal for int() with base 10: 'value'"),
        "SomeReason": ("SomeType", "Any type will do."),
        "Again": ("Normal", "This is one event, however often it is said."),
    }
    assert len(found) == len(told)
    assert counts.pop("Again") == count(operator, "Timer 'again' is invoked.")
    assert set(counts.values()) == {None}
    assert {event["reportingComponent"] for event in found} == {"posting-example"}


async def test_16_indices(served: Target, examples: Examples, tmp_path: Path) -> None:
    await examples.create("old", {"field": "a"})
    await examples.create_config("new", {"text": "hello"}, labels={"example": "indices"})
    await examples.create_config("old", {"text": "not this one"})
    with running(example("16-indices", examples), served, tmp_path / "log") as operator:
        operator.wait_for("with the field 'a': ['old']")
        await examples.create("new", {"field": "a"})
        operator.wait_for("with the field 'a': ['new', 'old']")
        operator.wait_for("the text for new: hello")
        await examples.patch("new", {"spec": {"field": "b"}})
        operator.wait_for("with the field 'b': ['new']")
        assert operator.stop() == 0
    assert "not this one" not in operator.text()


@pytest.mark.parametrize("signum", ["SIGTERM", "SIGINT"])
async def test_signals_end_the_operator_with_exit_code_0(
    served: Target, examples: Examples, tmp_path: Path, signum: str
) -> None:
    import signal

    with running(example("01-minimal", examples), served, tmp_path / "log") as operator:
        operator.wait_for("Starting ctl")
        await examples.create("one")
        await examples.handled("one")
        assert operator.stop(signal.Signals[signum]) == 0
        assert f"Signal {signum} is received. Operator is stopping." in operator.text()
        assert "Traceback" not in operator.text()


async def test_02_children(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("02-children", examples), served, tmp_path / "log") as operator:
        # Once this one was told of, the next one is an event and no part of a list.
        await examples.create_config("canary", {}, labels={"from-example": "yes"})
        operator.wait_for("of canary")
        await examples.create("one", {"items": ["a", "b", "c"]}, labels={"from-example": "yes"})
        body = await examples.handled("one", items=["a", "b", "c"])
        names = body["status"]["create_fn"]["children"]
        assert len(names) == 3
        assert all(name.startswith("one-") for name in names)
        children = {child["metadata"]["name"]: child for child in await examples.configs()}
        assert [children[name]["data"] for name in names] == [{"item": item} for item in "abc"]
        for name in names:
            operator.wait_for(f"child event ADDED of {name}")
            assert children[name]["metadata"]["labels"] == {"from-example": "yes"}
            (owner,) = children[name]["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
                "KopfExample",
                "one",
                body["metadata"]["uid"],
                True,
            )
        await examples.patch("one", {"metadata": {"labels": {"more": "x"}}})
        operator.wait_for("relabelled 3 children: {'more': 'x'}")
        found = [
            child["metadata"]["labels"] for child in await examples.configs() if child["metadata"]["name"] in names
        ]
        assert found == [{"from-example": "yes", "more": "x"}] * 3
        await examples.patch("one", {"metadata": {"labels": None}})
        operator.wait_for("relabelled 3 children: {'from-example': None, 'more': None}")
        await examples.patch("one", {"metadata": {"labels": {"first": "x"}}})
        operator.wait_for("relabelled 3 children: {'first': 'x'}")
        assert operator.stop() == 0


@pytest.mark.parametrize("way", ["environment", "kubeconfig"])
async def test_04_login(served: Target, examples: Examples, tmp_path: Path, way: str) -> None:
    environment = {}
    if way == "environment":
        environment = {
            "EXAMPLE_SERVER": served.url,
            "EXAMPLE_CA": authority(served, tmp_path),
            "KUBECONFIG": "/nowhere",
        }
        environment |= {"EXAMPLE_TOKEN": served.headers.get("Authorization", "").removeprefix("Bearer ")}
    given = {key: value for key, value in environment.items() if value}
    with running(example("04-login", examples), served, tmp_path / "log", **given) as operator:
        operator.wait_for(f"credentials from the {way}")
        await examples.create("one")
        operator.wait_for("one was created")
        assert operator.stop() == 0


def authority(target: Target, folder: Path) -> str:
    """The file of the certificates that a server is trusted by; empty when there are none."""
    cluster = yaml.safe_load(target.kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    if data is None:
        return str(cluster.get("certificate-authority") or "")
    file = folder / "ca.crt"
    file.write_bytes(base64.b64decode(data))
    return str(file)


async def test_07_subhandlers(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("07-subhandlers", examples), served, tmp_path / "log") as operator:
        await examples.create("one", {"items": ["a", "b"]})
        body = await examples.handled("one", items=["a", "b"])
        assert body["status"] == {"create_fn/a": {"made": "a"}, "create_fn/b": {"made": "b"}}
        operator.wait_for("Creation is processed: 1 succeeded; 0 failed.")
        assert operator.stop() == 0
    text = operator.text()
    for handler, calls in {"a": 1, "b": 1, "check-a": 2, "check-b": 2}.items():
        assert text.count(f"Handler 'create_fn/{handler}' is invoked.") == calls, text
    assert "a is ready after 2 attempts" in text
    assert "b is ready after 2 attempts" in text


async def test_09_testing(served: Target, examples: Examples, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(EXAMPLES / "09-testing")]
    with running(command, served, tmp_path / "log", EXAMPLE_NAMESPACE=examples.namespace) as tests:
        tests.wait_for("3 passed")
        assert tests.process.wait(30) == 0


async def test_10_builtins(served: Target, examples: Examples, tmp_path: Path) -> None:
    command = ctl_command("run", "-v", "-n", examples.namespace, str(EXAMPLES / "10-builtins" / "example.py"))
    with running(command, served, tmp_path / "log") as operator:
        operator.wait_for("Starting ctl")
        await examples.create_config("colours", {"red": "1"}, labels={"example": "builtins"})
        await examples.create_config("other", {"red": "1"})
        operator.wait_for("1 entries")
        await examples.patch_config("colours", {"data": {"blue": "2"}})
        operator.wait_for("2 entries")
        operator.wait_for("Updating is processed: 1 succeeded; 0 failed.")
        found = {config["metadata"]["name"]: annotations(config) for config in await examples.configs()}
        assert found["colours"]["example.com/entries"] == "2"
        assert found["other"] == {}
        operator.wait_for(f"namespace event None of {examples.namespace}")
        assert operator.stop() == 0


async def test_11_filters(served: Target, examples: Examples, tmp_path: Path) -> None:
    with running(example("11-filters", examples), served, tmp_path / "log") as operator:
        await examples.create("blue", {"replicas": 1}, labels={"colour": "blue"})
        await examples.create("green", {"replicas": 3}, labels={"colour": "green"}, annotations={"ignored": "yes"})
        await examples.create("plain", {"replicas": 3, "field": "shown"})
        for name in ("blue", "green", "plain"):
            await examples.handled(name)
        await examples.patch("blue", {"spec": {"replicas": 2}})
        await examples.handled("blue", replicas=2)
        await examples.patch("blue", {"spec": {"replicas": 3}})
        await examples.handled("blue", replicas=3)
        assert operator.stop() == 0
    said = {"labelled blue": 1, "labelled with some colour: blue": 1, "labelled with some colour": 1}
    said |= {"labelled red or blue": 1, "it is large, and has no colour": 1, "from 1 to 2": 1, "from 2 to 3": 0}
    for text, times in said.items():
        assert count(operator, text) == times, (text, operator.text())
    large = [line for line in operator.text().splitlines() if line.endswith("it is large")]
    assert sorted(line.partition("] it is")[0].rpartition("/")[2] for line in large) == ["blue", "green", "plain"]
    shown = [line for line in operator.text().splitlines() if line.endswith("shows")]
    assert shown
    assert all("/plain]" in line for line in shown)


async def test_12_embedded(served: Target, examples: Examples, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "12-embedded" / "example.py"), examples.namespace]
    with running(command, served, tmp_path / "log") as operator:
        operator.wait_for("the operator is ready")
        await examples.create("one")
        operator.wait_for("one was created")
        assert operator.stop() == 0
    assert operator.text().rstrip().endswith("the program goes on without it")
