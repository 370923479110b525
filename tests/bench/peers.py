"""The programs that are measured: peers' are built once and kept in the user's cache folder; each that runs prints its figures last."""

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctl"

Line = dict[str, float]


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


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """A server of its own; gives the URL that is the first line it prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def measured(command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> Line:
    """Run a program and give its last line; one that hangs is killed."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=env)
    assert run.returncode == 0, run.stderr[-2000:]
    line: Line = json.loads(run.stdout.splitlines()[-1])
    return line


def engines() -> dict[str, str]:
    """The interpreters by what they run: ours, and kopf's where there is an environment with it."""
    found = sorted(CACHE.glob("kopf/*/bin/python"))
    return {"ctl": sys.executable, **({"kopf": str(found[0])} if found else {})}


def operating(module: str, program: str, *scope: str) -> list[str]:
    """The command that runs a program of `handlers.py` as users run operators: quietly, and on uvloop on both sides, where we have it."""
    python = engines()[module]
    uvloop = None if module == "ctl" else _uvloop(python)
    environment = ["env", f"BENCH={program}", *([] if uvloop is None else [f"PYTHONPATH={uvloop}"])]
    return [*environment, python, "-m", module, "run", "-q", "--standalone", *scope, str(HERE / "handlers.py")]


def _uvloop(python: str) -> Path | None:
    """A folder with the uvloop that we run on, if we do, for another interpreter; its own environment stays as it is."""
    try:
        version = importlib.metadata.version("uvloop")
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = CACHE / "bench" / f"uvloop-{version}"
    if not folder.exists():
        command = [python, "-m", "pip", "install", "--quiet", "--target", str(folder), f"uvloop=={version}"]
        subprocess.run(command, check=True, timeout=300)
    return folder
