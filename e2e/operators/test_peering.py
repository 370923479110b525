"""Operators of the one and the other toolkit pause for each other, and each takes back what the other froze."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.api import Api
from conformance.spaces import provided
from operators.cluster import Examples
from operators.processes import Operator, ctl_command, kopf_command, running
from targets import Target

HERE = Path(__file__).parent
MANIFEST = HERE.parents[1] / "examples" / "peering.yaml"
COMMANDS = {"ctl": ctl_command, "kopf": kopf_command}
PAUSE = "Pausing operations in favour of ["
RESUME = "Resuming operations after the pause."
CONFLICT = "Possibly conflicting operators with the same priority: ["
COMMAND_SECONDS = 60.0
SECONDS = 60.0
STREAM = "{} the watch-stream for kopfexamples"


@pytest.fixture(scope="module")
def peered(served: Target) -> Iterator[Target]:
    """A server that has the definitions of peering as well."""
    with provided(served, *yaml.safe_load_all(MANIFEST.read_text())):
        yield served


class Peering:
    """The peering object of a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfpeerings"

    async def create(self) -> None:
        """Make it."""
        await self._api.create(
            self._path, {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "mine"}}
        )

    async def records(self) -> dict[str, Any]:
        """What is in it."""
        answer = await self._api.call("GET", f"{self._path}/mine")
        found: dict[str, Any] = answer.body.get("status") or {}
        return found

    async def until(self, count: int) -> dict[str, Any]:
        """Wait until there are so many records."""
        async with asyncio.timeout(SECONDS):
            while len(found := await self.records()) != count:  # noqa: ASYNC110 - another process writes them
                await asyncio.sleep(0.05)
        return found


@pytest.fixture
async def peering(peered: Target, examples: Examples) -> AsyncIterator[Peering]:
    """The peering object of the test's namespace."""
    async with Api(peered) as api:
        found = Peering(api, examples.namespace)
        await found.create()
        yield found


def operator(engine: str, examples: Examples, *more: str) -> list[str]:
    """The command line of an operator that insists on the peering `mine`."""
    files = [str(HERE / "kopf_operator.py"), str(HERE / "peering_operator.py")]
    return COMMANDS[engine]("run", "-v", "-n", examples.namespace, "--peering", "mine", *more, *files)


def run(engine: str, target: Target, examples: Examples, *arguments: str) -> None:
    """Run a command of the one or the other to its end."""
    command = COMMANDS[engine](*arguments, "-n", examples.namespace, "--peering", "mine")
    done = subprocess.run(
        command,
        env={"KUBECONFIG": str(target.kubeconfig), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()


def paused(found: Operator, engine: str, text: str = PAUSE) -> None:
    """Wait until an operator says that it pauses, and has done so: Kopf says it first, and closes its streams then."""
    found.wait_for(text)
    if engine == "kopf":
        close, reopen = STREAM.format("Pausing"), STREAM.format("Resuming")
        found.wait_until(lambda said: said.rfind(close) > said.rfind(reopen), f"{text!r}, and {close!r}")


async def canary(examples: Examples) -> None:
    """See that somebody handles objects."""
    await examples.create("canary")
    await examples.handled("canary")


@pytest.mark.parametrize(
    ("engine", "freezer", "resumer"),
    [("ctl", "kopf", "kopf"), ("kopf", "ctl", "ctl"), ("ctl", "ctl", "kopf"), ("ctl", "kopf", "ctl")],
)
async def test_each_freezes_the_other_and_takes_back_what_the_other_froze(
    peered: Target, examples: Examples, peering: Peering, tmp_path: Path, engine: str, freezer: str, resumer: str
) -> None:
    with running(operator(engine, examples), peered, tmp_path / "log") as found:
        await canary(examples)
        await asyncio.to_thread(run, freezer, peered, examples, "freeze", "--lifetime=600", "--priority=100")
        paused(found, engine)
        await examples.create("one")
        assert len(await peering.until(2)) == 2
        await asyncio.to_thread(run, resumer, peered, examples, "resume")
        await examples.handled("one")
        assert len(await peering.until(1)) == 1
        assert found.stop() == 0
    text = found.text()
    # Kopf says that it resumes when it begins, too.
    assert text.index(PAUSE) < text.rindex(RESUME) < text.index("first: one")
    assert await peering.records() == {}


@pytest.mark.parametrize(("low", "high"), [("ctl", "kopf"), ("kopf", "ctl"), ("ctl", "ctl")])
async def test_a_higher_priority_takes_over_and_gives_back(
    peered: Target, examples: Examples, peering: Peering, tmp_path: Path, low: str, high: str
) -> None:
    with running(operator(low, examples), peered, tmp_path / "low") as lower:
        await canary(examples)
        with running(operator(high, examples, "--dev"), peered, tmp_path / "high") as higher:
            paused(lower, low)
            assert sorted(record["priority"] for record in (await peering.until(2)).values()) == [0, 666]
            await examples.create("one")
            await examples.handled("one")
            assert higher.stop() == 0
        await examples.create("two")
        await examples.handled("two")
        assert lower.stop() == 0
    assert ("first: one" in higher.text(), "first: one" in lower.text()) == (True, False)
    assert ("first: two" in higher.text(), "first: two" in lower.text()) == (False, True)
    assert await peering.records() == {}


async def test_kopf_understands_the_record_of_an_elected_leader(
    peered: Target, examples: Examples, peering: Peering, tmp_path: Path
) -> None:
    lease = ("--leader-elect", "--lease-name", "op", "--lease-namespace", examples.namespace)
    with running(operator("kopf", examples), peered, tmp_path / "low") as lower:
        await canary(examples)
        with running(operator("ctl", examples, "--dev", *lease), peered, tmp_path / "high") as higher:
            paused(lower, "kopf")
            found = await peering.until(2)
            assert [record["lease"] for record in found.values() if "lease" in record] == [f"{examples.namespace}/op"]
            await examples.create("one")
            await examples.handled("one")
            assert higher.stop() == 0
        await examples.create("two")
        await examples.handled("two")
        assert lower.stop() == 0
    assert ("first: one" in higher.text(), "first: two" in lower.text()) == (True, True)


@pytest.mark.parametrize(("first", "second"), [("ctl", "kopf"), ("kopf", "ctl")])
async def test_equal_priorities_pause_both(
    peered: Target, examples: Examples, peering: Peering, tmp_path: Path, first: str, second: str
) -> None:
    with running(operator(first, examples), peered, tmp_path / "first") as one:
        await canary(examples)
        with running(operator(second, examples), peered, tmp_path / "second") as other:
            paused(one, first, CONFLICT)
            paused(other, second, CONFLICT)
            await examples.create("one")
            assert other.stop() == 0
        await examples.handled("one")
        assert one.stop() == 0
    assert "first: one" not in other.text()
    assert one.text().rindex(RESUME) < one.text().index("first: one")


@pytest.mark.parametrize(("low", "high"), [("ctl", "kopf"), ("kopf", "ctl")])
async def test_the_record_of_a_killed_operator_ends_and_is_cleaned_up(
    peered: Target, examples: Examples, peering: Peering, tmp_path: Path, low: str, high: str
) -> None:
    with running(operator(low, examples), peered, tmp_path / "low") as lower:
        await canary(examples)
        with running(operator(high, examples, "-p", "5"), peered, tmp_path / "high", LIFETIME="8") as higher:
            lower.wait_for(PAUSE)
            await peering.until(2)
            higher.kill()
        await examples.create("one")
        await examples.handled("one")
        assert {record["priority"] for record in (await peering.until(1)).values()} == {0}
        assert lower.stop() == 0


async def test_a_peering_that_was_asked_for_is_waited_for(peered: Target, examples: Examples, tmp_path: Path) -> None:
    await examples.create("one")
    with running(operator("ctl", examples), peered, tmp_path / "log") as found:
        found.wait_for("Pausing operations until there is a peering object 'mine'")
        async with Api(peered) as api:
            await Peering(api, examples.namespace).create()
        await examples.handled("one")
        assert found.stop() == 0
    assert found.text().index("The peering object 'mine' is there.") < found.text().index("first: one")


async def test_06_peering(peered: Target, examples: Examples, tmp_path: Path) -> None:
    folder = MANIFEST.parent / "06-peering"
    manifest = yaml.safe_load((folder / "peering.yaml").read_text())
    manifest["metadata"]["namespace"] = examples.namespace
    async with Api(peered) as api:
        await api.create(f"/apis/kopf.dev/v1/namespaces/{examples.namespace}/kopfpeerings", manifest)
    await examples.create("one")
    command = ctl_command("run", "-n", examples.namespace, str(folder / "example.py"))
    with running(command, peered, tmp_path / "first") as first:
        first.wait_for("tick of one")
        with running([*command, "--dev"], peered, tmp_path / "second") as second:
            first.wait_for(PAUSE)
            second.wait_for("tick of one")
            ticks = first.text().count("tick of one")
            second.wait_for_count("tick of one", second.text().count("tick of one") + 3)
            assert first.text().count("tick of one") <= ticks + 1
            assert second.stop() == 0
        first.wait_for(RESUME)
        first.wait_for_count("tick of one", first.text().count("tick of one") + 1)
        assert first.stop() == 0
