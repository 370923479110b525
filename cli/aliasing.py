"""`ctl alias` puts the distribution `kopf` into an environment: `import kopf`, the command `kopf` and `python -m kopf`
are ctl's there.
"""

import importlib.metadata
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import click

from .._version import KOPF_VERSION
from .distribution import is_alias, write_wheel
from .failures import CommandError
from .options import option

# -P: else a file `operator.py` in the current folder would hide Python's module of that name.
_PIP = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check")


@click.group("alias")
def alias() -> None:
    """Make `import kopf` and the command `kopf` ctl's in this environment."""


@alias.command("install")
@option(
    "--target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Install into this folder instead, as `pip install --target` does.",
)
def install(target: Path | None) -> None:
    """Install the distribution `kopf`, so that programs and images made for Kopf run on ctl.

    Refused where Kopf itself is installed.
    """
    where = [str(target)] if target is not None else sys.path
    _refuse_beside_kopf(where)
    with tempfile.TemporaryDirectory(prefix="ctl-alias-") as folder:
        write_wheel(Path(folder))
        place = ["--target", str(target), "--upgrade"] if target is not None else []
        # By name: `pip freeze` would list a wheel's path, and that file is temporary.
        wanted = ("--no-index", "--find-links", folder, f"kopf=={KOPF_VERSION}")
        _pip("install", "--quiet", "--no-deps", "--force-reinstall", *place, *wanted)
    _refuse_beside_kopf(where)
    click.echo(
        f"`kopf` {KOPF_VERSION} is ctl's now: `import kopf`, the command `kopf`, `python -m kopf`. `ctl alias remove` takes it back."
    )


@alias.command("remove")
def remove() -> None:
    """Remove the distribution `kopf`, if it is ours."""
    found = next(_installed(sys.path), None)
    if found is None:
        click.echo("There is no distribution `kopf` in this environment: nothing is removed.")
        return
    if not is_alias(found):
        raise CommandError(f"The `kopf` of this environment is Kopf {found.version}, and not ctl's: it is left alone.")
    _pip("uninstall", "--quiet", "--yes", "kopf")
    click.echo("`kopf` is not ctl's any more; Kopf can be installed.")


@alias.command("wheel")
@click.argument("folder", default=".", metavar="[DIR]", type=click.Path(exists=True, file_okay=False, path_type=Path))
def wheel(folder: Path) -> None:
    """Write the wheel of the distribution `kopf` into DIR (here), for installers other than pip and for other images."""
    click.echo(write_wheel(folder))


def _installed(path: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions called `kopf` in these folders, without the alias of this process."""
    return iter(importlib.metadata.distributions(name="kopf", path=list(path)))


def _refuse_beside_kopf(path: Sequence[str]) -> None:
    found = next((one for one in _installed(path) if not is_alias(one)), None)
    if found is not None:
        raise CommandError(
            f"Kopf {found.version} is installed in {found.locate_file('')}: two packages cannot have one name. To exchange them: "
            f"{sys.executable} -P -m pip uninstall -y kopf && {sys.executable} -P -m ctl alias install. (`ctl run` needs no exchange.)"
        )
    spec = None if next(_installed(path), None) is not None else PathFinder.find_spec("kopf", list(path))
    if spec is not None and spec.origin is not None:  # a folder without code does no harm
        raise CommandError(
            f"Something called `kopf` is there that no installer knows of: {spec.origin}. Move it away, or leave its folder out of "
            "PYTHONPATH, then try again."
        )


def _pip(*args: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise CommandError(
            f"There is no pip for {sys.executable}. Write the wheel and install it as you install other packages, for instance: "
            f"ctl alias wheel /tmp && uv pip install /tmp/kopf-{KOPF_VERSION}-py3-none-any.whl. To remove it: uv pip uninstall kopf."
        )
    done = subprocess.run([*_PIP, *args], check=False, capture_output=True, text=True)  # noqa: S603 - our own arguments
    if done.returncode:
        raise CommandError(f"pip could not {args[0]} `kopf`: {done.stderr.strip() or done.stdout.strip()}")
