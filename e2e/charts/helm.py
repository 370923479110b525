"""Runs helm and kubeconform as a user does."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts" / "ctl-operator"
VALUES = Path(__file__).resolve().parent / "values"
SECONDS = 150.0


@dataclass(frozen=True)
class Ran:
    """What a command has said and how it ended."""

    code: int
    text: str

    def well(self) -> str:
        """What it has printed; fails with all of it when it did not succeed."""
        assert self.code == 0, self.text
        return self.text


@dataclass(frozen=True)
class Helm:
    """helm, with a home of its own."""

    binaries: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str | Path) -> Ran:
        """Run helm with these arguments."""
        homes = {name: str(self.home / name) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        known = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        if self.kubeconfig is not None:
            known["KUBECONFIG"] = str(self.kubeconfig)
        return _run([self.binaries / "helm", *arguments], {**known, **homes})

    def template(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """The documents that the chart makes of these values, in the namespace `space` as the release `demo`."""
        text = self.run("template", "demo", CHART, "-n", "space", *arguments).well()
        return [document for document in yaml.safe_load_all(text) if document]


def judge(binaries: Path, schemas: Path, manifest: Path) -> Ran:
    """Check a file of documents by schemas, with kubeconform."""
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ("-strict", "-summary", "-verbose", "-schema-location", location)
    return _run([binaries / "kubeconform", *options, manifest], dict(os.environ))


def _run(command: Sequence[str | Path], environment: dict[str, str]) -> Ran:
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=SECONDS,
        check=False,
    )
    return Ran(done.returncode, done.stdout)
