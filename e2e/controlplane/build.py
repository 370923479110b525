"""Builds the real control plane (etcd, kube-apiserver, kube-controller-manager) from the Go modules that go.mod names.

No prebuilt binary is fetched. What was built is kept in the user's cache folder under a hash of the recipe, so the
minutes are spent once on a machine; `python build.py` prints the folder.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RECIPE = Path(__file__).resolve().parent
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager")
# `go build` names a binary after the last element of its import path, which is `server` for etcd.
RENAMED = {"server": "etcd"}
BUILD_SECONDS = 3600
LAST_LINES = 30


class BuildError(Exception):
    """The control plane could not be built; the message says what was missing and what to do."""


def kubernetes_version() -> str:
    """The version of Kubernetes that go.mod requires, such as `v1.37.1`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (RECIPE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{RECIPE / 'go.mod'} requires no k8s.io/kubernetes; restore the line from version control.")
    return found.group(1)


def _flags() -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    # Binaries built outside the Kubernetes repository call themselves v0.0.0 unless they are told.
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    told = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return ["-trimpath", "-buildvcs=false", "-p", "2", "-ldflags", f"-s -w {told}"]


def folder() -> Path:
    """Where this recipe's binaries are kept: `$XDG_CACHE_HOME/ctl/controlplane/<hash of the recipe>`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    recipe = hashlib.sha256()
    for part in ((RECIPE / "go.mod").read_bytes(), (RECIPE / "go.sum").read_bytes(), " ".join(_flags()).encode()):
        recipe.update(part)
    recipe.update(f"{sys.platform}-{platform.machine()}".encode())
    return cache / "ctl" / "controlplane" / recipe.hexdigest()[:16]


def is_built() -> bool:
    """Whether `build` would have nothing to do."""
    return all((folder() / name).is_file() for name in BINARIES)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the only lock on the path, waiting for another build to end: two at once would take twice the memory."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "Building the real control plane needs Go (the version that e2e/controlplane/go.mod names), but no `go` is on "
            "the PATH. Install Go, or set KUBECONFIG to use a cluster of your own instead.",
        )
    try:
        run = subprocess.run(
            [go, "build", *_flags(), "-o", f"{target}{os.sep}", "tool"],
            cwd=RECIPE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"`go build` of the control plane did not end within {BUILD_SECONDS} s in {RECIPE}."
        ) from error
    if run.returncode:
        tail = "\n".join(run.stdout.splitlines()[-LAST_LINES:])
        raise BuildError(f"`go build` of the control plane ended with exit code {run.returncode} in {RECIPE}:\n{tail}")
    for built, name in RENAMED.items():
        (target / built).rename(target / name)
    missing = [name for name in BINARIES if not (target / name).is_file()]
    if missing:
        raise BuildError(f"`go build` succeeded but left no {', '.join(missing)} in {target}; see the tools in go.mod.")


def build() -> Path:
    """Build what is missing and return the folder of the binaries.

    Idempotent, and safe when two run at once: one builds, the other waits and finds it done; a build that was broken
    off leaves nothing that a later one would take for finished. Raises `BuildError`.
    """
    target = folder()
    if is_built():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent / f"{target.name}.lock"):
        if is_built():
            return target
        sys.stderr.write(
            f"Building etcd and Kubernetes {kubernetes_version()} into {target}: about 7 minutes on 2 cores the first time, "
            "then never again.\n",
        )
        # Beside the target, so that the rename stays inside one file system and is atomic.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.building-") as unfinished:
            made = Path(unfinished) / "bin"
            made.mkdir()
            _compile(made)
            shutil.rmtree(target, ignore_errors=True)
            made.rename(target)
    return target


def main() -> int:
    """Build, print the folder, and answer with the exit code."""
    try:
        where = build()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{where}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
