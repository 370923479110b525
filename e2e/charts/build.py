"""Builds helm and kubeconform from the Go modules that tools/go.mod names, and fetches the definitions of monitoring kinds.

The program that evaluates queries (engine/main.go, around Prometheus' own engine) is built alike. Everything is kept in the user's cache folder; `python -m charts.build` (in e2e/) prints the folder of the binaries.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from controlplane.build import BuildError, Recipe

TOOLS = Recipe(
    name="charts",
    title="helm and kubeconform",
    source=Path(__file__).resolve().parent / "tools",
    binaries=("helm", "kubeconform"),
    minutes=3,
    instead="leave the tests of the charts out",
)
ENGINE = Recipe(
    name="engine",
    title="the engine of Prometheus",
    source=Path(__file__).resolve().parent / "engine",
    binaries=("engine",),
    minutes=1,
    instead="leave the evaluation of the queries out",
)
MONITORING = "github.com/prometheus-operator/prometheus-operator"
MONITORING_VERSION = "v0.85.0"
MONITORING_SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
MONITORING_KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
FETCH_SECONDS = 120


def monitoring() -> Path:
    """The folder of the definitions (CRDs) of ServiceMonitor, PodMonitor and PrometheusRule, fetched if need be.

    They are files of a Go module that is not built. Raises `BuildError`.
    """
    target = TOOLS.folder.parent / f"monitoring-{MONITORING_VERSION}"
    names = [f"monitoring.coreos.com_{kind}.yaml" for kind in MONITORING_KINDS]
    if all((target / name).is_file() for name in names):
        return target
    go = shutil.which("go")
    if go is None:
        raise BuildError("The definitions of the monitoring kinds are fetched by Go, but no `go` is on the PATH.")
    target.mkdir(parents=True, exist_ok=True)
    # Outside of any module, so that no go.mod is concerned.
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [go, "mod", "download", "-json", f"{MONITORING}@{MONITORING_VERSION}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    if run.returncode:
        raise BuildError(f"`go mod download {MONITORING}` ended with {run.returncode}: {run.stdout}{run.stderr}")
    found = json.loads(run.stdout)
    if found["Sum"] != MONITORING_SUM:
        raise BuildError(f"{MONITORING}@{MONITORING_VERSION} has the sum {found['Sum']}, expected {MONITORING_SUM}.")
    for name in names:
        shutil.copyfile(Path(found["Dir"]) / "example" / "prometheus-operator-crd" / name, target / name)
    return target


def main() -> int:
    """Build and fetch, print the folder of the binaries, and answer with the exit code."""
    try:
        where = TOOLS.build()
        ENGINE.build()
        monitoring()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{where}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
