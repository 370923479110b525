"""Makes an environment with the real Kopf, apart from ours.

`python e2e/operators/kopfenv.py` makes it beforehand, so that no test's time limit counts the installation.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

KOPF = "kopf==1.45.2"
INSTALL_SECONDS = 600.0


def kopf_python() -> Path:
    """An interpreter with the real Kopf; made once, and kept in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctl" / "kopf"
    key = hashlib.sha256(f"{KOPF} {sys.version}".encode()).hexdigest()[:16]
    home = cache / key
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        print(f"Installing {KOPF} into {home}, for comparison; this takes a minute", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=INSTALL_SECONDS)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", KOPF], check=True, timeout=INSTALL_SECONDS)
        (home / "complete").touch()
    return python


if __name__ == "__main__":
    kopf_python()
