"""The image is what the chart expects, and its versions are those that the package asks for."""

import importlib.metadata
import re
from pathlib import Path

import yaml
from charts.helm import CHART
from packaging.requirements import Requirement

ROOT = CHART.parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_what_production_needs_is_pinned_to_what_fits() -> None:
    found = pinned()
    for text in importlib.metadata.requires("ctl-toolkit") or []:
        wanted = Requirement(text)
        extras = ("", "client", "uvloop", "webhooks")
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            name = wanted.name.lower().replace("_", "-")
            assert found[name] in wanted.specifier, f"run `make constraints`: {wanted} is pinned to {found[name]}"


def test_the_user_is_the_one_of_the_chart_and_not_root() -> None:
    users = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)
    context = yaml.safe_load((CHART / "values.yaml").read_text())["podSecurityContext"]
    assert users[-1] == f"{context['runAsUser']}:{context['runAsGroup']}" != "0:0"
    assert "USER" not in DOCKERFILE[DOCKERFILE.rindex("\nENTRYPOINT") :]
    # Some builders give the folder to the user that was set before.
    assert DOCKERFILE.rindex("\nWORKDIR") < DOCKERFILE.rindex("\nUSER")


def test_the_chart_is_of_the_packages_version() -> None:
    version = re.search(r'VERSION = "(.*)"', (ROOT / "_version.py").read_text())
    assert version is not None
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version.group(1)


def test_what_is_copied_is_not_ignored() -> None:
    ignored = {line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    needed = {"setup.cfg", "pyproject.toml", "README.md", "LICENSE", "py.typed", *packages}
    needed |= {"constraints.txt", "requirements.lock", "requirements-build.lock"}
    assert needed & ignored == set()
    assert all((ROOT / name).exists() for name in needed)


def test_no_image_is_named_with_a_host() -> None:
    for file in (
        ROOT / "Dockerfile",
        *(ROOT / ".github").rglob("*.yaml"),
        CHART / "values.yaml",
        *Path(ROOT / "docs").glob("*.md"),
    ):
        for name in re.findall(r"(?:FROM|PYTHON=|repository:) *([\w.-]+\.[\w.-]+/\S+)", file.read_text()):
            raise AssertionError(f"{file} names the image {name}")
