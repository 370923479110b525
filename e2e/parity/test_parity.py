"""The same operators under Kopf and under ctl: what they are told and what they leave behind is the same, or documented."""

import dataclasses
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.spaces import provided
from operators.kopfenv import kopf_python
from parity.catalogue import SCENARIOS
from parity.comparing import Differences, compared
from parity.definitions import DEFINED
from parity.expected import EVERYWHERE, EXPECTED, Expected
from parity.runs import Recording, played
from targets import Target

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
CONFORMANCE = DOCUMENT.with_name("conformance.md")
TIMES = 3
"""How often a scenario is played until a difference counts."""
EVERY = bool(os.environ.get("PARITY_EVERYWHERE"))
"""Whether all scenarios run on the real server too, as in `make soak`."""


pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="session")
def fruits(target: Target) -> Iterator[Target]:
    """A server that serves what the operators handle."""
    with provided(target, *DEFINED):
        yield target


@pytest.mark.parametrize("name", SCENARIOS)
async def test_both_do_the_same(fruits: Target, tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    if fruits.name == "real" and not (scenario.real or EVERY):
        pytest.skip("On the real server in long runs only; on the sandbox always.")
    new, idle = _judged(name, await played(scenario, fruits, tmp_path))
    # What two programs do at the same time as a server is never quite the same twice: a difference is what comes again and again.
    for number in range(1, TIMES):
        if not new and not idle:
            break
        again = tmp_path / f"again-{number}"
        again.mkdir()
        once_more, idle_again = _judged(name, await played(scenario, fruits, again))
        new = {path: text for path, text in once_more.items() if path in new}
        idle = [one for one in idle if one in idle_again]
    shown = "\n".join(f"  {path}\n      {text}" for path, text in new.items())
    assert not new, f"{len(new)} differences that are not documented (`parity/expected.py`):\n{shown}"
    assert not idle, f"These differences occur no more; take them out of `parity/expected.py` and the document: {idle}"


def _judged(name: str, recordings: dict[str, Recording]) -> tuple[Differences, list[Expected]]:
    """The differences that nobody expects, and the expected ones that did not occur."""
    found = compared(recordings["kopf"], recordings["ctl"], ordered=SCENARIOS[name].ordered)
    meant = [*EXPECTED.get(name, ()), *EVERYWHERE]
    new = {path: text for path, text in found.items() if not any(one.covers(path, text) for one in meant)}
    awaited = [one for one in EXPECTED.get(name, ()) if one.always]
    return new, [one for one in awaited if not any(one.covers(path, text) for path, text in found.items())]


async def test_a_kopf_that_is_installed_beside_is_passed_over(fruits: Target, tmp_path: Path) -> None:
    if fruits.name == "real" and not EVERY:
        pytest.skip("The server does not matter.")
    beside = tmp_path / "beside"
    beside.mkdir()
    where = "import kopf, pathlib; print(pathlib.Path(kopf.__file__).parent)"
    (beside / "kopf").symlink_to(_printed(kopf_python(), where))
    scenario = dataclasses.replace(SCENARIOS["library"], environment={"PYTHONPATH": str(beside)})
    recordings = await played(scenario, fruits, tmp_path)
    assert compared(recordings["kopf"], recordings["ctl"]) == {}
    assert "Starting Kopf" not in recordings["ctl"].output


def _printed(python: Path, code: str) -> str:
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.strip()


def test_each_expected_difference_is_documented() -> None:
    text = DOCUMENT.read_text()
    listed = {one.anchor for several in (*EXPECTED.values(), EVERYWHERE) for one in several}
    missing = {anchor for anchor in listed if f'<a id="{anchor}"></a>' not in text}
    assert not missing, f"docs/compatibility.md has no anchors {sorted(missing)}"


def test_what_the_documents_refer_to_is_there() -> None:
    text = DOCUMENT.read_text() + CONFORMANCE.read_text()
    scenarios = set(re.findall(r"`parity:(\w+)`", text))
    assert scenarios <= set(SCENARIOS), scenarios - set(SCENARIOS)
    files = set(re.findall(r"`((?:tests|e2e)/[\w/]+\.py)`", text))
    assert not {name for name in files if not (DOCUMENT.parents[1] / name).exists()}


def test_each_scenario_is_referred_to() -> None:
    text = CONFORMANCE.read_text()
    assert not {name for name in SCENARIOS if f"`parity:{name}`" not in text}


def test_each_expectation_belongs_to_a_scenario() -> None:
    assert set(EXPECTED) <= set(SCENARIOS)
