"""How fast objects and changes are taken in, beside the peers that can be found: `make bench` prints it.

Peers: kopf, from the environment that the end-to-end suite keeps in the user's cache folder; client-go, when Go is there (its
program is built once, four minutes, and kept in the cache); kube-rs, when Cargo is there (built once, three minutes of one core);
fabric8's client, by which the Java Operator SDK watches, when Maven and a JDK (17 or newer) are there (built once, a minute).
The informer of the `kubernetes` package takes no custom resources.
"""

import json
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from .peers import CACHE, HERE, Line, client_go, engines, kept, measured, operating, serving

COUNT, EVENTS = 20_000, 200_000
SECONDS = 120
BUILD_SECONDS = 1200
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def replaying(count: int, events: int, *flags: str) -> AbstractContextManager[str]:
    return serving(sys.executable, str(HERE / "replay.py"), str(count), str(events), *flags)


def measure(name: str, *command: str, count: int = COUNT, events: int = EVENTS, pause: float = 1.0) -> Line:
    """Run one program against a server of its own and print its line; a program that hangs is killed."""
    with replaying(count, events, "--pause", str(pause)) as url:
        line = measured([part.replace("URL", url) for part in command], SECONDS)
    print(f"\n{name}: {json.dumps(line)}", end="")
    return line


def ours(name: str, *flags: str) -> Line:
    return measure(name, sys.executable, str(HERE / "ingest.py"), "URL", str(COUNT), str(EVENTS), *flags)


def test_ours() -> None:
    """Prints the figures; asserts only what no loaded machine can spoil."""
    streamed = ours("ctl, streamed list")
    pages = ours("ctl, pages", "--pages")
    ten = ours("ctl, ten subscribers", "--subscribers", "10")
    for line in (streamed, pages, ten):
        assert line["objects"] == COUNT
        assert line["joined"] == 0
        assert line["rss_per_object_bytes"] <= 1.5 * line["json_bytes_per_object"] + 250
    assert ten["live_per_cpu_s"] * 1.5 >= streamed["live_per_cpu_s"]


def test_kopf() -> None:
    if "kopf" not in engines():
        pytest.skip("no environment with kopf in the cache: `make e2e` makes one")
    few = 5_000
    measure("kopf", *operating("kopf", f"events {few} {few} URL", "-A"), count=few, events=few)


def test_client_go() -> None:
    program = client_go("clientgo", ".")
    if program is None:
        pytest.skip("Go is not installed")
    measure("client-go", str(program), "URL", str(COUNT), str(EVENTS // 4), events=EVENTS // 4)


@pytest.fixture(scope="module")
def kube_rs() -> Path:
    """The program that uses kube-rs, built when it is not in the cache."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("Cargo is not installed")
    program = kept("kubers", "kubers", "Cargo.toml", "Cargo.lock", "main.rs")
    if not program.exists():
        # With the parts in the cache too, an interrupted build goes on where it was. Gently: it is others' machine as well.
        target = CACHE / "bench" / "kubers-target"
        command = [cargo, "build", "--release", "--locked", "--jobs=1", f"--target-dir={target}"]
        try:
            subprocess.run(["nice", "-n", "15", *command], cwd=HERE / "kubers", check=True, timeout=BUILD_SECONDS)
        except (subprocess.SubprocessError, OSError) as exc:
            pytest.skip(f"The program of kube-rs cannot be built: {exc}")
        shutil.copy2(target / "release" / "ingest", program)
        shutil.rmtree(target)
    return program


@pytest.mark.timeout(BUILD_SECONDS + 2 * SECONDS)
def test_kube_rs(kube_rs: Path) -> None:
    measure("kube-rs, pages", str(kube_rs), "URL", str(COUNT), str(EVENTS))
    measure("kube-rs, streamed list", str(kube_rs), "URL", str(COUNT), str(EVENTS), "--stream")


@pytest.fixture(scope="module")
def fabric8() -> Path:
    """The folder of the program that uses fabric8's client and of what it depends on, filled when it is not in the cache."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        pytest.skip("Maven and a JDK are not installed")
    folder = kept("fabric8", "fabric8", "pom.xml", "Ingest.java")
    if not (folder / "target" / "dependency").exists():
        shutil.copytree(HERE / "fabric8", folder, dirs_exist_ok=True)
        command = [maven, "--quiet", "--batch-mode", "package", COPY, "-DincludeScope=runtime"]
        try:
            subprocess.run(["nice", "-n", "15", *command], cwd=folder, check=True, timeout=BUILD_SECONDS)
        except (subprocess.SubprocessError, OSError) as exc:
            shutil.rmtree(folder)
            pytest.skip(f"The program of fabric8 cannot be built: {exc}")
    return folder / "target"


@pytest.mark.timeout(BUILD_SECONDS + SECONDS)
def test_fabric8(fabric8: Path) -> None:
    path = f"{fabric8}/classes:{fabric8}/dependency/*"
    few = EVENTS // 4
    measure("fabric8", "java", "-cp", path, "Ingest", "URL", str(COUNT), str(few), events=few, pause=5.0)
