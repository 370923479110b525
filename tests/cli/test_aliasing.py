"""The distribution `kopf` where that name is ours: asked for in a process, and installed by `ctl alias install`."""

import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ctl._version import KOPF_VERSION, VERSION
from ctl.client.config.loading import load_access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.sandbox import Sandbox

from .processes import command

CONFIGMAPS = Resource("", "v1", "configmaps", namespaced=True)
OPERATOR = """
import kopf

@kopf.on.create("v1", "configmaps")
def create_fn(name, logger, **_):
    logger.info("a map is handled: %s by %s", name, kopf.__version__)
"""
ASK = """
import importlib.metadata as metadata
found = metadata.distribution("kopf")
print(metadata.version("kopf"), found.version, found.metadata["Name"], found.name)
print(*[entry.value for entry in metadata.entry_points(group="console_scripts", name="kopf")])
print(sorted(metadata.packages_distributions()["kopf"])[0], *metadata.packages_distributions()["kopf"])
"""


def run(*words: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("CTL_", "KOPF_", "PIP_", "PYTHON"))
    }
    return subprocess.run(
        [*map(str, words)], env={**clean, **env}, capture_output=True, text=True, timeout=100, check=False
    )


def printed(*words: str | Path, **env: str) -> str:
    done = run(*words, **env)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.strip()


def distribution(folder: Path, name: str, version: str, *more: str) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(
        "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more, ""])
    )
    info.joinpath("RECORD").write_text("")
    return folder


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the alias, as `pip install --target` would leave it."""
    folder = tmp_path_factory.mktemp("target")
    printed(sys.executable, "-m", "ctl", "alias", "install", "--target", folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment, with what is installed for the tests beside; its interpreter."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = Path(printed(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    site.joinpath("tester.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


def test_the_distribution_is_there_wherever_the_name_is_ours() -> None:
    lines = printed(sys.executable, "-c", "import ctl; ctl.install_as_kopf()" + ASK).splitlines()
    assert lines == [f"{KOPF_VERSION} {KOPF_VERSION} kopf kopf", "ctl.cli.main:entry_as_kopf", "kopf kopf"]


def test_it_is_ours_where_kopf_is_installed_as_well(tmp_path: Path) -> None:
    folder = distribution(tmp_path, "kopf", "1.37.1")
    code = """
import ctl, importlib.metadata as metadata, sys
print(metadata.version("kopf"))
ctl.install_as_kopf()
print(metadata.version("kopf"), *[one.version for one in metadata.distributions(name="kopf", path=sys.path[:1])])
"""
    code = f"import sys; sys.path.insert(0, {str(folder)!r})" + code
    assert printed(sys.executable, "-c", code).splitlines() == ["1.37.1", f"{KOPF_VERSION} 1.37.1"]


def test_nothing_else_is_found_that_was_not() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import importlib.metadata as metadata
print(metadata.version("ctl-toolkit"), *metadata.distributions(name="no-such"))
try:
    metadata.version("kopf-extras")
except metadata.PackageNotFoundError as exc:
    print(exc)
"""
    lines = printed(sys.executable, "-c", code).splitlines()
    assert lines == [VERSION, "No package metadata was found for kopf-extras"]


PROGRAMS = {
    "command": ["{target}/bin/kopf", "run", "--verbose", "--standalone", "-n", "default", "{operator}"],
    "module": ["-m", "kopf", "run", "--namespace=default", "--log-format=plain", "{operator}"],
    "own": ["{program}"],
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_operators_that_start_as_under_kopf_run_on_ctl(
    sandbox: Sandbox, target: Path, tmp_path: Path, program: str
) -> None:
    names = {"target": target, "operator": tmp_path / "operator.py", "program": tmp_path / "program.py"}
    names["operator"].write_text(OPERATOR)
    own = 'import logging\nlogging.basicConfig(level=logging.INFO)\nkopf.run(standalone=True, namespaces=["default"])\n'
    names["program"].write_text(OPERATOR + own)
    kubeconfig = sandbox.kubeconfig(tmp_path / "kubeconfig")
    words: Sequence[str] = [word.format(**names) for word in PROGRAMS[program]]
    env = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(target)}
    async with command(program=words, env=env) as running, Client(load_access(kubeconfig)) as client:
        await client.create(CONFIGMAPS, {"metadata": {"name": "one"}}, "default")
        await running.line(f"a map is handled: one by {KOPF_VERSION}")
        assert await running.end(signal.SIGTERM) == 0


def test_the_installed_package_has_what_kopf_has(target: Path) -> None:
    code = """
import kopf.on, kopf.cli, kopf.testing
from kopf import adopt, TemporaryError, harmonize_naming
from kopf._cogs.structs.bodies import Body
import ctl
print(TemporaryError is ctl.TemporaryError, kopf.on.create is ctl.on.create, kopf.cli.main.name, Body is kopf.Body)
print(len(kopf.__all__), kopf.__version__, kopf.__version_tuple__, kopf.__name__)
ctl.install_as_kopf()
print(kopf.run is ctl.run)
try:
    import kopf._cogs.absent
except ImportError as exc:
    print("a private part" in str(exc))
"""
    lines = printed(sys.executable, "-c", code, PYTHONPATH=str(target)).splitlines()
    assert lines == ["True True ctl True", f"108 {KOPF_VERSION} (1, 45, 2) kopf", "True", "True"]
    assert printed(sys.executable, "-c", ASK, PYTHONPATH=str(target)).startswith(
        f"{KOPF_VERSION} {KOPF_VERSION} kopf kopf\n"
    )


def test_each_command_of_kopf_is_there_under_its_name(target: Path) -> None:
    for words in (["-m", "kopf"], [str(target / "bin" / "kopf")]):
        assert (
            printed(sys.executable, *words, "--version", PYTHONPATH=str(target))
            == f"kopf, version {KOPF_VERSION} (ctl {VERSION})"
        )
        for name in ("run", "freeze", "resume"):
            usage = printed(sys.executable, *words, name, "--help", PYTHONPATH=str(target))
            assert usage.startswith(f"Usage: kopf {name} [OPTIONS]")


def test_an_environment_gets_it_and_gives_it_back(environment: Path, tmp_path: Path) -> None:
    pip: list[str | Path] = [environment, "-m", "pip", "--disable-pip-version-check"]
    site = Path(printed(environment, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    distribution(site, "needy", "1.0", "Requires-Dist: kopf (>=1.36)")
    assert "needy 1.0 requires kopf, which is not installed." in run(*pip, "check").stdout
    for _ in range(2):  # the second time it takes the place of itself
        printed(environment, "-m", "ctl", "alias", "install")
    assert f"kopf=={KOPF_VERSION}" in printed(*pip, "freeze").splitlines()
    assert "needy" not in run(*pip, "check").stdout
    shown = printed(*pip, "show", "--files", "kopf")
    assert "Requires: ctl-toolkit" in shown
    assert "kopf/__init__.py" in shown
    assert printed(environment.with_name("kopf"), "--version").startswith(f"kopf, version {KOPF_VERSION}")
    assert "is not ctl's any more" in printed(environment, "-m", "ctl", "alias", "remove")
    assert not environment.with_name("kopf").exists()
    assert not (site / "kopf").exists()
    assert "nothing is removed" in printed(environment, "-m", "ctl", "alias", "remove")
    printed(environment, "-m", "ctl", "alias", "install")
    printed(*pip, "uninstall", "--yes", "kopf")
    assert not (site / "kopf").exists()
    assert not environment.with_name("kopf").exists()


def test_it_is_refused_beside_kopf_and_kopf_is_left_alone(environment: Path, tmp_path: Path) -> None:
    site = Path(printed(environment, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    distribution(site, "kopf", "1.37.1", "Requires-Dist: aiohttp")
    refused = run(environment, "-m", "ctl", "alias", "install")
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"Error: Kopf 1.37.1 is installed in {site}: two packages cannot have one name. To exchange them: "
    )
    assert "-m pip uninstall -y kopf && " in refused.stderr
    kept = run(environment, "-m", "ctl", "alias", "remove")
    assert kept.stderr == "Error: The `kopf` of this environment is Kopf 1.37.1, and not ctl's: it is left alone.\n"
    assert [path.name for path in site.glob("kopf*")] == ["kopf-1.37.1.dist-info"]


def test_it_is_refused_beside_code_that_nobody_has_installed(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "kopf").mkdir()
    (tmp_path / "kopf" / "__init__.py").write_text("")
    refused = run(environment, "-m", "ctl", "alias", "install", PYTHONPATH=str(tmp_path))
    assert refused.stderr.startswith(f"Error: Something called `kopf` is there that no installer knows of: {tmp_path}")
    assert refused.returncode == 1


def test_a_file_with_the_name_of_a_module_of_python_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators are often called `operator.py`, and images install where the operator is."""
    (tmp_path / "operator.py").write_text("raise SystemExit('the operator was loaded')\n")
    monkeypatch.chdir(tmp_path)
    assert printed(sys.executable, "-P", "-m", "ctl", "alias", "install", "--target", "t").startswith("`kopf` ")
    refused = run(
        sys.executable,
        "-P",
        "-m",
        "ctl",
        "alias",
        "install",
        PYTHONPATH=str(distribution(tmp_path / "s", "kopf", "1.37.1")),
    )
    commands = refused.stderr.partition("To exchange them: ")[2].partition(". (")[0].split(" && ")
    assert [command.split()[1] for command in commands] == ["-P", "-P"]


def test_without_pip_the_wheel_is_named(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pip'] = None\n")
    refused = run(sys.executable, "-m", "ctl", "alias", "install", "--target", tmp_path / "t", PYTHONPATH=str(tmp_path))
    assert refused.stderr.startswith(f"Error: There is no pip for {sys.executable}.")
    assert "ctl alias wheel /tmp" in refused.stderr


def test_the_wheel_is_the_same_each_time(tmp_path: Path) -> None:
    found = []
    for name in "ab":
        (tmp_path / name).mkdir()
        found.append(Path(printed(sys.executable, "-m", "ctl", "alias", "wheel", tmp_path / name)))
    assert [path.name for path in found] == [f"kopf-{KOPF_VERSION}-py3-none-any.whl"] * 2
    assert found[0].read_bytes() == found[1].read_bytes()


def test_the_alias_without_ctl_says_what_to_install(target: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(target)!r}); import kopf"
    run_ = run(sys.executable, "-I", "-S", "-c", code)
    assert run_.stderr.splitlines()[-1].startswith(
        "ImportError: This `kopf` is an alias of ctl, and ctl is not installed here."
    )
