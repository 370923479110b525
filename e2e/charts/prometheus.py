"""Asks Prometheus' own engine what queries give over pages of metrics that were scraped one after another."""

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEP = 120.0
"""The seconds between two scrapes, and between two evaluations, of the time that the engine sees."""
SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What a query gives at each step: by its labels, the numbers by the time."""

    error: str
    warnings: Sequence[str]
    series: Sequence[tuple[Mapping[str, str], Mapping[float, float]]]

    def held_for(self, seconds: float) -> list[Mapping[str, str]]:
        """The labels of what was there for so long without a gap, as an alert with such a `for` needs it to fire."""
        steps = math.ceil(seconds / STEP) + 1
        return [labels for labels, values in self.series if _longest(sorted(values)) >= steps]


def _longest(times: Sequence[float]) -> int:
    best = run = 0
    before: float | None = None
    for time in times:
        run = run + 1 if before is not None and time - before <= STEP else 1
        best, before = max(best, run), time
    return best


@dataclass
class Prometheus:
    """Scrapes, in the time of which one real page follows another by STEP seconds."""

    engine: Path
    now: float = 1_000_000.0
    _began: float = 1_000_000.0
    _scrapes: list[dict[str, Any]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def scrape(self, pages: Mapping[str, str], **labels: str) -> None:
        """Take the pages of several pods at one moment, under these labels of their targets; a pod that is not named is not there."""
        gone = self._known - pages.keys()
        self._known = set(pages)
        for pod, text in [*pages.items(), *((pod, "") for pod in sorted(gone))]:
            self._scrapes.append({"at": self.now, "labels": {"pod": pod, "instance": pod, **labels}, "text": text})
        self.now += STEP

    def ask(self, queries: Sequence[str]) -> list[Answer]:
        """What each query gives, from the first scrape to the last."""
        given = {
            "scrapes": self._scrapes,
            "start": self._began,
            "end": self.now - STEP,
            "step": STEP,
            "queries": list(queries),
        }
        done = subprocess.run(
            [self.engine], input=json.dumps(given), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return [
            Answer(one["error"], one["warnings"] or (), [(s["labels"], dict(s["values"])) for s in one["series"] or ()])
            for one in json.loads(done.stdout)
        ]
