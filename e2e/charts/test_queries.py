"""Every metric and label that the alerts and the dashboard name is shown by an operator that runs."""

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.conftest import PEERING
from charts.helm import CHART, VALUES, Helm
from charts.promql import Named, mentioned, named
from charts.release import Release
from charts.test_install import LATE, RULES, SECONDS, leads, remove, until, written
from conformance.api import Api
from conformance.spaces import provide
from operators.cluster import Examples
from prometheus_client.parser import text_string_to_metric_families

DOCS = CHART.parents[1] / "docs"
RULE_FILE = CHART / "files" / "rules.yaml"
BOARD = CHART / "files" / "dashboard.json"
TARGET = frozenset({"namespace", "pod", "job", "instance", "service", "endpoint", "container"})
"""What Prometheus adds to each series; a label of the same name becomes `exported_...`."""

pytestmark = pytest.mark.timeout(300)


def alerts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULE_FILE.read_text())["rules"]
    return found


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(BOARD.read_text())["panels"]:
        yield from [panel] if panel["type"] != "row" else panel["panels"]


def expressions() -> Iterator[tuple[str, str]]:
    """Each query of alerts and dashboard, with where it is from."""
    for rule in alerts():
        yield rule["alert"], rule["expr"].replace("SELECTOR", 'namespace="space", pod=~"demo-.*"')
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_all_queries_can_be_read_and_are_about_the_release_alone() -> None:
    for where, expression in expressions():
        found = list(named(expression))
        assert found, where
        for one in found:
            assert {"namespace", "pod"} <= one.labels, f"{where}: {one}"


def test_what_texts_and_legends_show_is_left_by_their_queries() -> None:
    for rule in alerts():
        by = re.search(r"by \(([^)]*)\)", rule["expr"])
        for label in mentioned(rule["annotations"]["summary"]):
            assert by is None or label in re.split(r",\s*", by.group(1)), rule
    for panel in panels():
        for target in panel["targets"]:
            by = re.search(r"by \(([^)]*)\)", target["expr"])
            for label in mentioned(target["legendFormat"]):
                assert by is None or label in re.split(r",\s*", by.group(1)), target


def test_every_alert_is_in_the_manual() -> None:
    names = {rule["alert"] for rule in alerts()}
    assert set(re.findall(r"- alert: (\w+)", (DOCS / "metrics.md").read_text())) <= names
    assert set(re.findall(r"^### (\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE)) == names


def test_the_rules_arrive_as_they_are(helm: Helm) -> None:
    documents = helm.template("-f", VALUES / "servicemonitor.yaml")
    (rule,) = (one for one in documents if one["kind"] == "PrometheusRule")
    (group,) = rule["spec"]["groups"]
    got = {one["alert"]: one for one in group["rules"]}
    assert got.keys() == {one["alert"] for one in alerts()} - {"ServerKeepsTooLittleHistory"}
    selector = 'namespace="space", pod=~"demo-ctl-operator-[a-z0-9]+-[a-z0-9]+"'
    for one in alerts():
        if one["alert"] in got:
            arrived = got[one["alert"]]
            assert arrived["expr"] == one["expr"].replace("SELECTOR", selector)
            assert arrived["annotations"]["summary"] == one["annotations"]["summary"]
            assert arrived["annotations"]["runbook_url"] == f"/docs/operations.md#{one['alert'].lower()}"
    (board,) = (one for one in documents if one["metadata"]["name"].endswith("-dashboard"))
    assert board["data"]["ctl-operator.json"] == BOARD.read_text()


def lacking(shown: dict[str, set[str]]) -> Iterator[str]:
    """What a query asks for that is not shown."""
    for where, expression in expressions():
        for one in named(expression):
            if one.metric not in shown:
                yield f"{where} asks for {one.metric}, which is not shown"
            elif missing := one.labels - shown[one.metric]:
                yield f"{where} asks for {one}, which has no {missing}"


def samples(page: str) -> dict[str, set[str]]:
    """The labels of each series, as they are after Prometheus has added those of the target."""
    found: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {f"exported_{name}" if name in TARGET else name for name in sample.labels}
            found[sample.name] |= labels | TARGET
    return found


async def test_every_metric_and_label_is_there(release: Release, api: Api, tmp_path: Path) -> None:
    for definition in yaml.safe_load_all(PEERING.read_text()):
        await provide(api, definition)
    # One kind is not there, whatever another test has defined, so that something waits for it; a peering shows its own.
    await remove(api, ["lateones.ctl.test"])
    values = {
        "rbac": {"rules": [*RULES, LATE]},
        "operator": {"logFormat": "full"},
        "peering": {"name": "mine", "create": True},
    }
    release.install(written(tmp_path, values))
    examples = Examples(api, release.namespace)
    with ExitStack() as stack:
        replica = await release.replica("a", stack)
        await until(lambda: leads(replica), "a leader", [replica])
        await examples.create("one", {"field": "value", "block": 0.8})
        await examples.handled("one", field="value")
        await until(lambda: "ctl_loop_blocks_total{" in replica.page("/metrics")[1], "a block", [replica])
        deadline = time.monotonic() + SECONDS
        # Some are counted later than what they count is done.
        while missing := list(lacking(shown := samples(replica.page("/metrics")[1]))):
            assert time.monotonic() < deadline, missing
            await asyncio.sleep(0.1)
        assert replica.operator.stop() == 0
    assert release.server.refusals_of(release.account) == []
    for rule in alerts():
        if " by (" not in rule["expr"] and "absent(" not in rule["expr"]:
            for one in named(rule["expr"].replace("SELECTOR", 'pod="a"')):
                assert mentioned(rule["annotations"]["summary"]) <= shown[one.metric], rule
    release.uninstall()


def test_names_are_found() -> None:
    query = 'histogram_quantile(0.9, sum by (le) (rate(x_bucket{a="b"}[5m]))) > 1 and (absent(y) or -z < 2)'
    assert list(named(query)) == [
        Named("x_bucket", frozenset({"le", "a"})),
        Named("y", frozenset()),
        Named("z", frozenset()),
    ]
