"""`import kopf` gives this toolkit: in processes of their own, since it changes the import system for good."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctl._version import KOPF_VERSION
from ctl.cli.alias import kopf_names
from ctl.cli.private import MODULES, RENAMED

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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("kopf.on.creat", "module 'kopf.on' has no attribute 'creat'. Did you mean 'create'?"),
        ("kopf.TemporaryEror", "module 'kopf' has no attribute 'TemporaryEror'. Did you mean 'TemporaryError'?"),
        ("kopf.qqq", "module 'kopf' has no attribute 'qqq'"),
    ],
)
def test_a_misspelt_name_is_answered_in_one_sentence(wrong: str, told: str) -> None:
    run = python(f"import ctl; ctl.install_as_kopf()\nimport kopf\n{wrong}")
    assert run.stderr.splitlines()[-1] == f"AttributeError: {told}"
    assert "direct cause" not in run.stderr


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


PRIVATE = "a private part of Kopf that ctl does not have."
FORMER = "a part of old versions of Kopf that ctl does not have."
ITSELF = "Import what is needed from `kopf` itself, where all public names are"


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("import kopf._cogs.absent", f"kopf._cogs.absent, {PRIVATE} {ITSELF}."),
        ("from kopf import _absent", f"kopf._absent, {PRIVATE} {ITSELF}."),
        (
            "from kopf._core.reactor import handling",
            f"handling of kopf._core.reactor, {PRIVATE} {ITSELF}.",
        ),
        (
            "from kopf._cogs.structs.references import (\n    Resource,\n    Selector,\n)",
            f"Selector of kopf._cogs.structs.references, {PRIVATE} {ITSELF}.",
        ),
        (
            "from kopf._core.intents.registries import SmartOperatorRegistry, generate_id",
            f"generate_id of kopf._core.intents.registries, {PRIVATE} {ITSELF}.",
        ),
        (
            "from kopf._core.engines.indexing import OperatorIndexers",
            f"OperatorIndexers of kopf._core.engines.indexing, {PRIVATE} {ITSELF}.",
        ),
        (
            "from kopf.structs.diffs import diff, Diff",
            f"kopf.structs.diffs, {FORMER} {ITSELF}: for Diff that is `kopf.Diff`. There is nothing public for diff.",
        ),
        (
            "from kopf.reactor.handling import HandlerFatalError",
            f"kopf.reactor.handling, {FORMER} {ITSELF}: for HandlerFatalError that is `kopf.PermanentError`.",
        ),
        (
            "from kopf._cogs.configs.configuration import ScanningSettings",
            f"ScanningSettings of kopf._cogs.configs.configuration, {PRIVATE} {ITSELF}: for ScanningSettings that is `kopf.OperatorSettings`.",
        ),
    ],
)
def test_inner_parts_are_refused_with_the_place_and_the_remedy(tmp_path: Path, statement: str, refused: str) -> None:
    (tmp_path / "nosy.py").write_text(f"\n\n{statement}\n")
    run = python("import ctl; ctl.install_as_kopf(); import nosy", tmp_path)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    place = tmp_path / "nosy.py"
    error = "ImportError" if PRIVATE in refused else "ModuleNotFoundError"
    assert last == f"{error}: {place}:3 imports {refused} Or run this operator with Kopf."


def test_inner_parts_are_refused_without_the_source_too() -> None:
    code = "import ctl, importlib; ctl.install_as_kopf(); importlib.import_module('kopf._cogs.structs.absent')"
    run = python(code)
    assert run.returncode == 1
    assert "ImportError: <string>:3 imports kopf._cogs.structs.absent, a private part" in run.stderr


INNER = """
import ctl; ctl.install_as_kopf()
import kopf
assert kopf._core.actions.execution.TemporaryError is kopf.TemporaryError
import kopf._cogs.structs.diffs
import kopf._core.engines.indexing
import kopf._core.intents.causes as causes
import kopf._core.actions.lifecycles as inner
from kopf import _cogs
from kopf._cogs.structs import bodies, patches
from kopf._cogs.structs.bodies import Body, RawBody as Raw
from kopf._cogs.structs.references import Resource
from kopf._core.actions import lifecycles
from kopf._core.actions.execution import Logger, PermanentError
from kopf._core.intents.registries import SmartOperatorRegistry
from kopf._kits.runner import KopfRunner
assert (Body, Raw, Resource, Logger) == (kopf.Body, kopf.RawBody, kopf.Resource, kopf.Logger)
assert bodies.Body is Body and patches.Patch is kopf.Patch and causes.Reason is kopf.Reason
assert _cogs.structs.diffs.Diff is kopf.Diff and PermanentError is kopf.PermanentError
assert lifecycles.asap is inner.asap is kopf.lifecycles.asap
assert SmartOperatorRegistry is kopf.OperatorRegistry
print(repr(KopfRunner), hasattr(bodies, "get_state"))
bodies.get_state
"""


def test_public_names_can_be_had_from_inner_modules(real_kopf: Path) -> None:
    run = python(INNER, real_kopf)
    assert run.stdout.strip() == "<kopf.testing.KopfRunner: not there yet, comes with ctl 0.6> False", run.stderr
    refused = f"module 'kopf._cogs.structs.bodies' has no attribute 'get_state': it is a private part of Kopf. {ITSELF}"
    assert refused in run.stderr


def test_the_function_that_tells_differences_can_be_had_from_its_inner_module() -> None:
    code = """
import ctl; ctl.install_as_kopf()
import kopf
import kopf._cogs.structs.diffs
from kopf._cogs.structs.diffs import DiffItem, diff as told
found = kopf._cogs.structs.diffs.diff({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2}, "d": 3})
print(isinstance(found, kopf.Diff), sorted(tuple(item) for item in found))
print([tuple(item) for item in told({"b": 1}, {"b": 2}, ("spec",))], DiffItem is kopf.DiffItem)
"""
    run = python(code)
    assert run.stdout.splitlines() == [
        "True [('add', ('d',), None, 3), ('change', ('a', 'b'), 1, 2), ('remove', ('c',), [1], None)]",
        "[('change', ('spec', 'b'), 1, 2)] True",
    ], run.stderr


def test_what_is_told_of_inner_parts_is_public() -> None:
    public = {*kopf_names(), "testing.KopfRunner"}
    told = {name for names in MODULES.values() for name in names.split()} | set(RENAMED.values())
    assert told <= public
