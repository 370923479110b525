"""Makes an environment with the published operators, and the real Kopf apart from it, so that one process has either Kopf or ctl.

`python e2e/published/environment.py` makes both beforehand, so that no test's time limit counts the installation.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from operators.kopfenv import INSTALL_SECONDS, KOPF

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FORGOTTEN = [f"devserver/operator/devserver/resources/{name}.sh" for name in ("startup", "user_login")]
"""Files that a package reads and its wheel does not hold: empty ones are put there."""
ROOT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The folder of the environment; made once, and kept in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctl" / "published"
    key = hashlib.sha256(f"{KOPF} {REQUIREMENTS.read_text()} {FORGOTTEN} {sys.version}".encode()).hexdigest()[:16]
    found = cache / key
    if not (found / "complete").exists():
        print(f"Installing the published operators into {found}, for comparison; this takes a minute", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(found))
        _install(found, "--requirement", str(REQUIREMENTS))
        _install(found, "--target", str(found / "kopf"), KOPF)
        for name in FORGOTTEN:
            (next(found.glob("lib/python3*/site-packages")) / name).write_text("#!/bin/sh\n")
        (found / "complete").touch()
    return found


def python() -> Path:
    """An interpreter that has the operators, and neither Kopf nor ctl."""
    return home() / "bin" / "python"


def kopf_path() -> Path:
    """What to put on its PYTHONPATH for the real Kopf."""
    return home() / "kopf"


def ctl_path(folder: Path) -> Path:
    """What to put on its PYTHONPATH for ctl as it is in this checkout; made in a folder of the test's own."""
    path = folder / "path"
    path.mkdir(exist_ok=True)
    if not (link := path / "ctl").exists():
        link.symlink_to(ROOT)
    return path


def site_packages() -> Path:
    """Where the operators' own files are: some bring the definitions of their resources."""
    return next(home().glob("lib/python3*/site-packages"))


def _install(where: Path, *arguments: str) -> None:
    # The list is whole: what some of the operators pin (an old Kopf among it) is not what they are run with here.
    _run(str(where / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS)


if __name__ == "__main__":
    home()
