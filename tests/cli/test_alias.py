"""`import kopf` gives this toolkit: in processes of their own, since it changes the import system for good."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctl.cli.alias import KOPF_VERSION, kopf_names

REMEDY = "call ctl.install_as_kopf() before that import, or start the operator with `ctl run`"


def python(code: str, *path: Path) -> "subprocess.CompletedProcess[str]":
    """Run code in a fresh interpreter, with these folders to import from."""
    lines = ["import sys", f"sys.path[:0] = {[str(folder) for folder in path]!r}", code]
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )


def printed(code: str, *path: Path) -> str:
    run = python(code, *path)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture
def real_kopf(tmp_path: Path) -> Path:
    """A folder in which something else is called kopf, as Kopf itself would be where it is installed."""
    package = tmp_path / "installed" / "kopf"
    (package / "_cogs").mkdir(parents=True)
    (package / "__init__.py").write_text("import kopf._cogs\nfrom kopf._cogs import Body\n")
    (package / "_cogs" / "__init__.py").write_text("class Body: pass\n")
    return package.parent


def test_all_108_names_can_be_imported() -> None:
    assert len(kopf_names()) == 108
    code = "import ctl; ctl.install_as_kopf(); from kopf import *; import kopf; print(len([n for n in kopf.__all__ if n in globals()]))"
    assert printed(code) == "108"


def test_names_outside_of_all_can_be_imported_too() -> None:
    code = (
        "import ctl; ctl.install_as_kopf(); from kopf import adjust_namespace, harmonize_naming; import kopf;"
        "print(kopf.__version__, kopf.__version_tuple__, kopf.__commit_id__)"
    )
    assert printed(code) == f"{KOPF_VERSION} (1, 45, 2) None"


def test_names_are_the_facades_own() -> None:
    code = "import ctl; ctl.install_as_kopf(); import kopf; print(kopf.TemporaryError is ctl.TemporaryError)"
    assert printed(code) == "True"


def test_sub_modules_can_be_imported() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf.on, kopf.testing, kopf.cli
from kopf.on import create
import ctl.on
print(kopf.on.create is ctl.on.create, create is ctl.on.create, kopf.on.__name__, ctl.on.__name__)
"""
    assert printed(code) == "True True kopf.on ctl.on"


def test_each_decorator_is_ours_or_says_when_it_comes() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf.on, ctl.on
print(*[name for name in kopf.on.__all__ if getattr(kopf.on, name) is getattr(ctl.on, name)])
print(*[name for name in kopf.on.__all__ if "comes with" in repr(getattr(kopf.on, name))])
"""
    ours, later = printed(code).splitlines()
    assert (
        ours
        == "startup cleanup login probe resume create update delete field index event daemon timer subhandler register"
    )
    assert later == "validate mutate"


def test_the_commands_of_kopf_are_ours() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf.cli
print(*[getattr(kopf.cli, name).name for name in ("main", "run", "freeze", "resume")])
"""
    assert printed(code) == "ctl run freeze resume"


def test_the_lifecycles_are_an_attribute_and_no_module() -> None:
    code = """
import ctl; ctl.install_as_kopf()
from kopf import lifecycles
print(lifecycles.asap.__name__)
try:
    import kopf.lifecycles
except ModuleNotFoundError as exc:
    print(exc)
"""
    assert printed(code).splitlines() == ["asap", "No module named 'kopf.lifecycles'"]


def test_a_name_to_come_can_be_annotated_with_and_refuses_to_be_used() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf
def fn(server: kopf.WebhookServer | None, more: list[kopf.WebhookFn]): pass
for use in (lambda: kopf.WebhookServer(port=1), lambda: exec('class Mine(kopf.WebhookServer): pass'), lambda: kopf.WebhookServer.port):
    try:
        use()
    except NotImplementedError as exc:
        print(exc)
"""
    lines = printed(code).splitlines()
    assert len(lines) == 3
    assert all(
        line.startswith("kopf.WebhookServer is not there yet in ctl") and "it comes with ctl 0." in line
        for line in lines
    )


def test_all_that_is_to_come_says_so_when_it_is_used() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf, kopf.testing, kopf.cli
print(kopf.cli.CLIControls.__name__, callable(kopf.cli.logging_options))
used = {name: getattr(kopf, name) for name in kopf.__all__ if name.endswith(("Server", "Tunnel"))}
used |= {"on.validate": lambda: kopf.on.validate("x"), "on.mutate": lambda: kopf.on.mutate("x")}
used |= {"testing.KopfRunner": lambda: kopf.testing.KopfRunner(["run", "-A"])}
for name, use in used.items():
    try:
        print("used", name, use())
    except NotImplementedError as exc:
        print(exc)
"""
    first, *lines = printed(code).splitlines()
    assert first == "CLIControls True"
    assert len(lines) == 10
    assert all(" is not there yet in ctl" in line and "Until then" in line for line in lines), lines


def test_installing_twice_changes_nothing() -> None:
    code = "import ctl, sys; ctl.install_as_kopf(); n = len(sys.meta_path); ctl.install_as_kopf(); print(len(sys.meta_path) - n)"
    assert printed(code) == "0"


def test_an_installed_kopf_is_passed_over(real_kopf: Path) -> None:
    code = "import ctl; ctl.install_as_kopf(); import kopf; print(kopf.__version__)"
    assert printed(code, real_kopf) == KOPF_VERSION


def test_a_package_that_imports_kopf_gets_the_same_module(tmp_path: Path) -> None:
    (tmp_path / "thirdparty.py").write_text("import kopf\nfrom kopf import PermanentError\n")
    code = "import ctl; ctl.install_as_kopf(); import thirdparty, kopf; print(thirdparty.kopf is kopf, thirdparty.PermanentError is ctl.PermanentError)"
    assert printed(code, tmp_path) == "True True"


def test_kopf_imported_before_is_an_error_that_names_the_importer(real_kopf: Path, tmp_path: Path) -> None:
    (tmp_path / "eager_plugin.py").write_text("from kopf import Body\n")
    run = python("import eager_plugin, ctl; ctl.install_as_kopf()", real_kopf, tmp_path)
    assert run.returncode == 1
    assert "ImportError: Kopf has been imported already, by eager_plugin." in run.stderr
    assert REMEDY in run.stderr


@pytest.mark.parametrize(
    "statement", ["import kopf._cogs", "from kopf._core.intents import causes", "from kopf import _cogs"]
)
def test_private_parts_are_refused_with_the_place_and_the_remedy(tmp_path: Path, statement: str) -> None:
    (tmp_path / "nosy.py").write_text(f"\n\n{statement}\n")
    run = python("import ctl; ctl.install_as_kopf(); import nosy", tmp_path)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / 'nosy.py'}:3 imports kopf._co")
    assert "private part of Kopf" in last
    assert "Import what is needed from `kopf` itself" in last
