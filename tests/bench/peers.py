"""Peers' programs are built once and kept in the user's cache folder."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctl"


def kept(name: str, folder: str, *sources: str) -> Path:
    """Where the program that is built from these sources is kept: another place for other sources."""
    parts = [(HERE / folder / source).read_bytes() for source in sources]
    return CACHE / "bench" / f"{name}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}"


def client_go(name: str, package: str) -> Path | None:
    """The program that uses client-go from this package, built when it is not in the cache; None without Go."""
    go = shutil.which("go")
    if go is None:
        return None
    program = kept(name, "clientgo", "go.mod", "go.sum", f"{package}/main.go")
    if not program.exists():
        command = [go, "build", "-o", str(program), f"./{package}"]
        subprocess.run(command, cwd=HERE / "clientgo", check=True, timeout=580)
    return program
