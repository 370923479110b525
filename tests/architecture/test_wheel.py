"""The wheel holds the whole package and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .source import MODULES, ROOT, packages


def test_every_folder_with_code_is_listed_as_a_package() -> None:
    """A package that is not listed works in development and is absent from the wheel."""
    outside = {"build", "dist", "docs", "e2e", "examples", "tests", "charts"}
    found = {
        ".".join(["ctl", *path.parent.relative_to(ROOT).parts])
        for path in ROOT.glob("*/**/*.py")
        if (top := path.relative_to(ROOT).parts[0]) not in outside and not top.startswith(".")
    }
    assert {*packages()} == found | {"ctl"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Built from a copy, without the network: the build system is the one installed here."""
    source, target = tmp_path_factory.mktemp("source") / "ctl", tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(".*", "build", "dist", "e2e", "tests", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(target),
        ".",
    ]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=110)
    [path] = target.glob("*.whl")
    return zipfile.ZipFile(path).namelist()


def test_the_wheel_holds_exactly_the_tree(wheel: list[str]) -> None:
    code = {name for name in wheel if name.startswith("ctl/")}
    expected = {str(Path("ctl") / module.path.relative_to(ROOT)) for module in MODULES}
    assert code == expected | {"ctl/py.typed"}


def test_the_wheel_holds_the_licence_and_the_command(wheel: list[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert any(name.endswith("entry_points.txt") for name in wheel)
