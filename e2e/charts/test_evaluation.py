"""Prometheus' own engine evaluates the alerts and the dashboard over the pages of replicas that run; alerts fire when they should."""

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from charts.prometheus import STEP, Answer, Prometheus
from charts.release import Release, Replica
from charts.test_install import LATE, LATE_DEFINITION, RULES, SECONDS, leads, ready, remove, until, written
from charts.test_queries import alerts, expressions
from conformance.spaces import DEFINITIONS, established
from operators.cluster import Examples

NAMESPACE = "space"
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
SELECTOR = f'namespace="{NAMESPACE}", pod=~"demo-.*"'

pytestmark = pytest.mark.timeout(300)


def waits(rule: dict[str, Any]) -> float:
    """The seconds of an alert's `for`."""
    text = rule.get("for", "0s")
    return float(text[:-1]) * UNITS[text[-1]]


class Watched:
    """What Prometheus knows of the replicas of a release."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus

    async def scrape(self, *replicas: Replica) -> dict[str, str]:
        """Scrape replicas; gives their pages."""
        pages: dict[str, str] = {}

        async def look() -> bool:
            pages.update({f"demo-{one.port}": await asyncio.to_thread(metrics, one) for one in replicas})
            return all(pages.values())

        await until(look, "the pages of all", list(replicas))
        self._prometheus.scrape(pages, namespace=NAMESPACE, job="demo")
        return pages

    def repeat(self, pages: dict[str, str], seconds: float) -> None:
        """The same pages for so long: nothing changes."""
        for _ in range(int(seconds / STEP) + 2):
            self._prometheus.scrape(pages, namespace=NAMESPACE, job="demo")

    def ask(self, queries: Sequence[str]) -> list[Answer]:
        """What queries give; fails with what is wrong."""
        found = self._prometheus.ask(queries)
        for query, answer in zip(queries, found, strict=True):
            assert (answer.error, list(answer.warnings)) == ("", []), query
        return found

    def firing(self) -> dict[str, list[Any]]:
        """The alerts that would have fired, with the labels."""
        rules = alerts()
        found = self.ask([rule["expr"].replace("SELECTOR", SELECTOR) for rule in rules])
        held = {rule["alert"]: one.held_for(waits(rule)) for rule, one in zip(rules, found, strict=True)}
        return {name: list(labels) for name, labels in held.items() if labels}


def of_release(expression: str) -> str:
    """A query as it is sent: Grafana puts in what was chosen."""
    chosen = expression.replace("$namespace", NAMESPACE).replace("$pod", ".*").replace("$__rate_interval", "8m")
    assert "$" not in chosen
    return chosen


async def test_every_query_gives_numbers_and_a_calm_operator_raises_no_alert(
    release: Release, tmp_path: Path, prometheus: Prometheus
) -> None:
    # What another test has defined would be handled, and one kind of ours is to be missing.
    await remove(release.api, ["lateones.ctl.test"])
    release.install(written(tmp_path, {"rbac": {"rules": [*RULES, LATE]}}))
    examples, watched = Examples(release.api, release.namespace), Watched(prometheus)
    with ExitStack() as stack:
        replicas = [await release.replica(one, stack) for one in ("a", "b")]
        await until(lambda: any(leads(one) for one in replicas), "a leader", replicas)
        await until(lambda: all(metrics(one) for one in replicas), "the pages of both", replicas)
        for number in range(12):
            await examples.create(f"n{number}")
            await examples.handled(f"n{number}", field="value")
            pages = await watched.scrape(*replicas)
        for replica in replicas:
            assert await asyncio.to_thread(replica.operator.stop) == 0
    names = {rule["alert"] for rule in alerts()}
    panels = [(where, of_release(query)) for where, query in expressions() if where not in names]
    found = watched.ask([query for _, query in panels])
    empty = [
        where for (where, _), one in zip(panels, found, strict=True) if not any(values for _, values in one.series)
    ]
    assert empty == ["Paused by peers"]  # there is no peering
    assert watched.firing() == {}
    # The kind that is missing may be missing for a while, not for good.
    watched.repeat(pages, 600)
    firing = watched.firing()
    assert firing.keys() == {"HandledKindIsMissing"}
    missing = {(one["pod"], one["resource"], one["reason"]) for one in firing["HandledKindIsMissing"]}
    assert missing == {(pod, "ctl.test/lateones", "unresolved") for pod in pages}
    release.uninstall()


async def test_alerts_fire_when_they_should(release: Release, tmp_path: Path, prometheus: Prometheus) -> None:
    # A kind is defined that the rules do not allow.
    await remove(release.api, ["lateones.ctl.test"])
    await established(release.api, await release.api.create(DEFINITIONS, LATE_DEFINITION))
    release.install(written(tmp_path, {"rbac": {"rules": RULES}}))
    examples, watched = Examples(release.api, release.namespace), Watched(prometheus)
    with ExitStack() as stack:
        leader = await release.replica("a", stack)
        await until(lambda: leads(leader), "a leader", [leader])
        await until(lambda: 'phase="parked"' in metrics(leader), "a parked informer", [leader])
        await watched.scrape(leader)
        # One object fails for good, others again and again, and one blocks the loop.
        await examples.create("bad", {"field": "value", "fail": "for good"})
        await examples.handled("bad", field="value")
        await watched.scrape(leader)
        assert watched.firing() == {"HandlerFails": [{"handler": "fail/spec.fail"}]}
        for number in range(4):
            await examples.create(f"worse{number}", {"field": "value", "fail": "again"})
        await blocked(examples, leader)
        # As if the pages of some seconds were those of half an hour.
        for _ in range(22):
            await until(more_than(retries(leader) + 20, leader), "more retries", [leader])
            await watched.scrape(leader)
        firing = watched.firing()
        assert firing.keys() == {
            "HandlerFails",
            "HandlerIsRetriedAgainAndAgain",
            "HandlerBlocksTheLoop",
            "OperatorMayNotOrCannotWatch",
        }
        assert firing["HandlerIsRetriedAgainAndAgain"] == [{"handler": "fail/spec.fail"}]
        assert {labels["handler"] for labels in firing["HandlerBlocksTheLoop"]} == {"block/spec.block"}
        assert {labels["resource"] for labels in firing["OperatorMayNotOrCannotWatch"]} == {"lateones"}
        # Nobody leads while the lease of one that was killed has not run out.
        standby = await release.replica("b", stack)
        await until(ready(standby), "a standby", [standby])
        await asyncio.to_thread(leader.operator.kill)
        pages = await watched.scrape(standby)
        watched.repeat(pages, 60)
        assert watched.firing()["NobodyLeads"] == [{"name": "demo-ctl-operator"}]
    watched.repeat({}, 600)
    (absent,) = watched.firing()["OperatorIsAbsent"]
    assert absent["namespace"] == NAMESPACE
    await remove(release.api, ["lateones.ctl.test"])
    release.uninstall()


async def blocked(examples: Examples, replica: Replica) -> None:
    """Have the loop blocked, until it is counted: what the machine takes of such a time is nobody's fault."""
    deadline = time.monotonic() + SECONDS
    for number in itertools.count():
        await examples.create(f"slow{number}", {"field": "value", "block": 0.8})
        for _ in range(20):
            await asyncio.sleep(0.2)
            if BLOCKS in metrics(replica):
                return
        assert time.monotonic() < deadline, replica.operator.text()[-3000:]


BLOCKS = 'ctl_loop_blocks_total{handler="block/spec.block"}'
RETRIED = re.compile(r'ctl_handler_calls_total{(?=[^}]*outcome="retried")(?=[^}]*handler="fail/spec.fail")[^}]*} (\S+)')


def retries(replica: Replica) -> float:
    return sum(float(found) for found in RETRIED.findall(metrics(replica)))


def more_than(count: float, replica: Replica) -> Callable[[], bool]:
    return lambda: retries(replica) > count


def metrics(replica: Replica) -> str:
    return replica.page("/metrics")[1]
