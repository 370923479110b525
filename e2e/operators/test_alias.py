"""In an environment of their own, with ctl and the distribution `kopf` of `ctl alias install`, programs made for Kopf run as they are."""

import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from operators.cluster import Examples, diff_base
from operators.kopfenv import KOPF
from operators.processes import running
from targets import Target

pytestmark = pytest.mark.timeout(900)  # the first test waits for the installation of the environment

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = Path(__file__).with_name("kopf_operator.py")
PROGRAM = Path(__file__).with_name("aliased_operator.py")
WITH_PKG_RESOURCES = "setuptools<81"
"""Later ones have no `pkg_resources`."""


def said(*words: str | Path, code: int = 0) -> str:
    """What a command says; it must end with this code."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of a fresh environment, in which ctl is installed from its wheel, and the alias beside it."""
    folder = tmp_path_factory.mktemp("aliased")
    ignored = shutil.ignore_patterns(".*", "build", "dist", "e2e", "tests", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    said(*build, "-w", folder, folder / "source")
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    commands = folder / "venv" / "bin"
    said(commands / "python", "-m", "pip", "install", "--quiet", wheel, WITH_PKG_RESOURCES)
    said(commands / "ctl", "alias", "install")
    return commands


def program(environment: Path, way: str, namespace: str) -> Sequence[str]:
    options = ("--verbose", "--standalone", f"--namespace={namespace}", str(OPERATOR))
    return {
        "kopf run": [str(environment / "kopf"), "run", *options],
        "python -m kopf run": [str(environment / "python"), "-m", "kopf", "run", *options],
        "kopf.run()": [str(environment / "python"), str(PROGRAM), namespace],
    }[way]


@pytest.mark.parametrize("way", ["kopf run", "python -m kopf run", "kopf.run()"])
async def test_programs_made_for_kopf_run_as_they_are(
    environment: Path, served: Target, examples: Examples, tmp_path: Path, way: str
) -> None:
    with running(program(environment, way, examples.namespace), served, tmp_path / "log") as operator:
        await examples.create("one", {"field": "a"})
        body = await examples.handled("one", field="a")
        assert body["status"] == {"first": {"done": True}}
        assert diff_base(body) == {"spec": {"field": "a"}}
        operator.wait_for("first: one by 1.45.2" if way == "kopf.run()" else "first: one")
        assert operator.stop() == 0


def test_packages_that_require_kopf_find_it(environment: Path) -> None:
    python = environment / "python"
    [site] = environment.parent.glob("lib/python*/site-packages")
    info = site / "needy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: needy\nVersion: 1.0\nRequires-Dist: kopf >=1.36\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nneedy = kopf.cli:main\n")
    script = environment / "needy"
    script.write_text(
        "__requires__ = 'needy==1.0'\nimport sys\nfrom pkg_resources import load_entry_point\n"
        "sys.exit(load_entry_point('needy==1.0', 'console_scripts', 'needy')(prog_name='kopf'))\n"
    )
    try:
        assert "kopf, version 1.45.2" in said(python, "-W", "ignore", script, "--version")
        code = "import pkg_resources as p; p.require('needy'); print(p.get_distribution('kopf'))"
        assert "kopf 1.45.2" in said(python, "-W", "ignore", "-c", code)
        assert "No broken requirements found." in said(python, "-m", "pip", "check")
    finally:
        shutil.rmtree(info)


@pytest.mark.parametrize("first", ["pkg_resources, ctl", "ctl, pkg_resources"])
def test_pkg_resources_knows_the_name_where_it_is_not_installed(environment: Path, first: str) -> None:
    said(environment / "ctl", "alias", "remove")
    try:
        code = f"import {first}; ctl.install_as_kopf(); import pkg_resources as p; print(p.require('kopf>=1.36'))"
        assert "[kopf 1.45.2" in said(environment / "python", "-W", "ignore", "-c", code)
    finally:
        said(environment / "ctl", "alias", "install")


def test_kopf_is_exchanged_as_the_refusal_says(environment: Path) -> None:
    python = environment / "python"
    said(python, "-m", "pip", "uninstall", "--yes", "kopf")
    said(python, "-m", "pip", "install", "--quiet", "--no-deps", KOPF)
    refused = said(environment / "ctl", "alias", "install", code=1)
    told = re.search(r"To exchange them: (.*)\. \(", refused)
    assert told is not None, refused
    for command in told[1].split(" && "):
        said(*shlex.split(command))
    assert "(ctl " in said(environment / "kopf", "--version")
    assert "Requires: ctl-toolkit" in said(python, "-m", "pip", "show", "kopf")
