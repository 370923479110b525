"""Operators that others have published, unmodified: under ctl they end each step in the same state as under Kopf."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.spaces import provided
from parity.comparing import Differences
from published.catalogue import OPERATORS
from published.environment import REQUIREMENTS
from published.expected import EXPECTED
from published.playing import Step, played
from published.stage import Published
from targets import Target

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
CONFORMANCE = DOCUMENT.with_name("conformance.md")
TIMES = 3
"""How often a script is played until a difference counts: what two programs do at the same time is never quite the same twice."""
KINDS = ("writes", "reads", "events", "operator's writes", "operator's reads")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=list(OPERATORS))
def operator(request: pytest.FixtureRequest, real: Target) -> Iterator[Published]:
    """One after the other, with the resources that it needs served."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("Where a kubelet or a cloud may be at work, it cannot be said for it what it would say.")
    found = OPERATORS[request.param]
    with provided(real, *found.definitions()):
        yield found


async def test_each_step_ends_in_the_same_state(operator: Published, real: Target, tmp_path: Path) -> None:
    new: Differences = {}
    for number in range(TIMES):
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        steps = await played(operator, real, folder)
        print(_table(operator, steps))
        again = {f"{step.name}: {path}": text for step in steps for path, text in step.differences.items()}
        new = {path: text for path, text in again.items() if number == 0 or path in new}
        if not new:
            return
    shown = "\n".join(f"  {path}\n      {text}" for path, text in new.items())
    raise AssertionError(f"{len(new)} differences that are not documented (`published/expected.py`):\n{shown}")


def test_each_expected_difference_is_documented() -> None:
    text = DOCUMENT.read_text()
    listed = {one.anchor for several in EXPECTED.values() for one in several}
    missing = {anchor for anchor in listed if f'<a id="{anchor}"></a>' not in text}
    assert not missing, f"docs/compatibility.md has no anchors {sorted(missing)}"


def test_each_operator_is_listed_with_its_version() -> None:
    text = CONFORMANCE.read_text()
    pinned = REQUIREMENTS.read_text()
    for one in OPERATORS.values():
        assert f"{one.name}=={one.version} " in pinned
        assert f"{one.name} {one.version}" in text


def _table(operator: Published, steps: list[Step]) -> str:
    """Requests per step, Kopf's / ctl's: those of the framework, those about Events, and those of the operator's own clients."""
    lines = [f"{operator.name} {operator.version}", "  ".join([f"{'step':40}", *(f"{kind:>17}" for kind in KINDS)])]
    for step in steps:
        figures = (f"{step.requests['kopf'][kind]} / {step.requests['ctl'][kind]}" for kind in KINDS)
        lines.append("  ".join([f"{step.name:40}", *(f"{figure:>17}" for figure in figures)]))
    return "\n".join(lines)
