"""What the package is built from and shipped with is named so that nobody can put something else in its place."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def locked(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    pins = text[text.index("\n", text.rindex("\n#") + 1) + 1 :]
    found = {one["name"]: one["version"] for one in PIN.finditer(pins)}
    assert PIN.sub("", pins) == "", f"{name} has lines without a hash"
    return found


def constrained() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_file_has_a_hash_and_the_version_of_the_constraints(name: str) -> None:
    found = locked(name)
    assert found
    assert found.items() <= constrained().items()


def test_the_lock_has_all_that_the_image_needs() -> None:
    found = locked("requirements.lock")
    for text in importlib.metadata.requires("ctl-toolkit") or []:
        wanted = Requirement(text)
        extras = ("", "uvloop", "webhooks")
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            version = found[canonicalize_name(wanted.name)]
            assert version in wanted.specifier, f"run `make constraints`: {wanted} is locked to {version}"


@pytest.mark.parametrize("name", [*LOCKS, "constraints.txt"])
def test_no_file_says_which_index_to_use(name: str) -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", (ROOT / name).read_text())


def test_the_image_is_installed_by_hashes_upon_a_base_of_a_digest() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    (base,) = re.findall(r"^ARG PYTHON=(.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON}"}
    for command in re.findall(r"pip install ([^&\n]*)", text):
        assert "--require-hashes" in command or {"--no-index", "--no-deps"} <= {*command.split()}, command


def test_actions_of_workflows_are_pinned_to_commits() -> None:
    files = [*(ROOT / ".github" / "workflows").glob("*.y*ml")]
    uses = [line.strip() for path in files for line in path.read_text().splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.fullmatch(r"- uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_each_python_of_the_package_is_tested() -> None:
    matrix = re.search(r"matrix: \{python: \[(.*)\]\}", (ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    assert matrix is not None
    said = {text.rpartition(" ")[2] for text in importlib.metadata.metadata("ctl-toolkit").get_all("Classifier") or []}
    assert {*re.findall(r"3\.\d+", matrix[1])} == {one for one in said if re.fullmatch(r"3\.\d+", one)}
