"""Builds the real control plane (etcd, kube-apiserver, kube-controller-manager) from the Go modules that go.mod names.

No prebuilt binary is fetched. What was built is kept in the user's cache folder under a hash of the recipe, so the
minutes are spent once on a machine; `python build.py` prints the folder. Other tools are built alike, by a `Recipe` of
their own.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

RECIPE = Path(__file__).resolve().parent
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager")
# `go build` names a binary after the last element of its import path, which is `server` for etcd.
RENAMED = {"server": "etcd"}
BUILD_SECONDS = 3600
LAST_LINES = 30


class BuildError(Exception):
    """Something could not be built; the message says what was missing and what to do."""


def kubernetes_version() -> str:
    """The version of Kubernetes that go.mod requires, such as `v1.37.1`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (RECIPE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{RECIPE / 'go.mod'} requires no k8s.io/kubernetes; restore the line from version control.")
    return found.group(1)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Binaries that are built from the tools of a Go module of ours."""

    name: str
    """The folder in the cache."""
    title: str
    """What it is, for messages."""
    source: Path
    """The folder of go.mod and go.sum, and of Go code of our own where there is some."""
    binaries: tuple[str, ...]
    minutes: int
    """How long the first build takes on 2 cores."""
    instead: str
    """What to do where there is no Go."""
    ldflags: str = "-s -w"
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What `go build` calls a binary, and what it is to be called."""

    @property
    def flags(self) -> list[str]:
        """The options of `go build`."""
        return ["-trimpath", "-buildvcs=false", "-p", "2", "-ldflags", self.ldflags]

    @property
    def folder(self) -> Path:
        """Where the binaries are kept: `$XDG_CACHE_HOME/ctl/<name>/<hash of the recipe>`."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        recipe = hashlib.sha256()
        names = ("go.mod", "go.sum", *sorted(path.name for path in self.source.glob("*.go")))
        files = ((self.source / name).read_bytes() for name in names)
        for part in (*files, " ".join(self.flags).encode()):
            recipe.update(part)
        recipe.update(f"{sys.platform}-{platform.machine()}".encode())
        return cache / "ctl" / self.name / recipe.hexdigest()[:16]

    def is_built(self) -> bool:
        """Whether `build` would have nothing to do."""
        return all((self.folder / name).is_file() for name in self.binaries)

    def build(self) -> Path:
        """Build what is missing and return the folder of the binaries.

        Idempotent, and safe when two run at once: one builds, the other waits and finds it done; a build that was broken
        off leaves nothing that a later one would take for finished. Raises `BuildError`.
        """
        target = self.folder
        if self.is_built():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent / f"{target.name}.lock"):
            if self.is_built():
                return target
            sys.stderr.write(
                f"Building {self.title} into {target}: about {self.minutes} minutes on 2 cores the first time, then never again.\n",
            )
            # Beside the target, so that the rename stays inside one file system and is atomic.
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.building-") as unfinished:
                made = Path(unfinished) / "bin"
                made.mkdir()
                self._compile(made)
                shutil.rmtree(target, ignore_errors=True)
                made.rename(target)
        return target

    def _compile(self, target: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise BuildError(
                f"Building {self.title} needs Go (the version that {self.source / 'go.mod'} names), but no `go` is on the PATH. "
                f"Install Go, or {self.instead}.",
            )
        try:
            run = subprocess.run(
                [go, "build", *self.flags, "-o", f"{target}{os.sep}", "tool"],
                cwd=self.source,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"`go build` of {self.title} did not end within {BUILD_SECONDS} s in {self.source}."
            ) from error
        if run.returncode:
            tail = "\n".join(run.stdout.splitlines()[-LAST_LINES:])
            raise BuildError(
                f"`go build` of {self.title} ended with exit code {run.returncode} in {self.source}:\n{tail}"
            )
        for built, name in self.renamed.items():
            (target / built).rename(target / name)
        missing = [name for name in self.binaries if not (target / name).is_file()]
        if missing:
            raise BuildError(
                f"`go build` succeeded but left no {', '.join(missing)} in {target}; see the tools in go.mod."
            )

    def print_folder(self) -> int:
        """Build, print the folder, and answer with the exit code of a program."""
        try:
            where = self.build()
        except BuildError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write(f"{where}\n")
        return 0


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the only lock on the path, waiting for another build to end: two at once would take twice the memory."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ldflags() -> str:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    # Binaries built outside the Kubernetes repository call themselves v0.0.0 unless they are told.
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    told = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return f"-s -w {told}"


def control_plane() -> Recipe:
    """What the real control plane is built by."""
    return Recipe(
        name="controlplane",
        title=f"etcd and Kubernetes {kubernetes_version()}",
        source=RECIPE,
        binaries=BINARIES,
        minutes=7,
        instead="set KUBECONFIG to use a cluster of your own instead",
        ldflags=_ldflags(),
        renamed=RENAMED,
    )


def folder() -> Path:
    """Where the binaries of the control plane are kept."""
    return control_plane().folder


def is_built() -> bool:
    """Whether `build` would have nothing to do."""
    return control_plane().is_built()


def build() -> Path:
    """Build the control plane, as `Recipe.build` does."""
    return control_plane().build()


if __name__ == "__main__":
    sys.exit(control_plane().print_folder())
