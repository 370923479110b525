import pytest
from prometheus_client.parser import text_string_to_metric_families

from ctl.runtime.metrics import MetricFamily, Metrics, Sample, Tally

ADDS = MetricFamily("workqueue_adds_total", "Keys added.", "counter", ("name",))
DEPTH = MetricFamily("workqueue_depth", "Keys waiting.", "gauge", ("name",))
WAIT = MetricFamily("workqueue_queue_duration_seconds", "Time in the queue.", "histogram", ("name",))


def _parse(metrics: Metrics) -> dict[str, float]:
    text, content_type = metrics.expose()
    assert content_type.startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_samples_of_several_sources_become_one_family() -> None:
    metrics = Metrics()
    metrics.add_source(lambda: [Sample(ADDS, ("a",), 3), Sample(DEPTH, ("a",), 1)])
    metrics.add_source(lambda: [Sample(ADDS, ("b",), 4)])
    assert metrics.expose()[0].count(b"# TYPE workqueue_adds_total counter") == 1
    assert _parse(metrics) == {
        "workqueue_adds_total{name=a}": 3,
        "workqueue_adds_total{name=b}": 4,
        "workqueue_depth{name=a}": 1,
    }


def test_a_tally_is_exposed_with_cumulative_buckets() -> None:
    tally = Tally((0.1, 1, 10))
    for value in (0.05, 0.1, 0.5, 100):
        tally.add(value)
    assert tally.count == 4
    metrics = Metrics()
    metrics.add_source(lambda: [Sample(WAIT, ("a",), tally)])
    found = _parse(metrics)
    assert [
        found[f"workqueue_queue_duration_seconds_bucket{{le={le},name=a}}"] for le in ("0.1", "1.0", "10.0", "+Inf")
    ] == [2, 3, 3, 4]
    assert found["workqueue_queue_duration_seconds_count{name=a}"] == 4
    assert found["workqueue_queue_duration_seconds_sum{name=a}"] == 100.65


def test_values_are_read_at_scrape_time_and_a_source_can_leave() -> None:
    value = 1.0
    metrics = Metrics()
    remove = metrics.add_source(lambda: [Sample(DEPTH, ("a",), value)])
    assert _parse(metrics) == {"workqueue_depth{name=a}": 1}
    value = 7.0
    assert _parse(metrics) == {"workqueue_depth{name=a}": 7}
    remove()
    remove()
    assert _parse(metrics) == {}


def test_two_operators_in_one_process_do_not_meet() -> None:
    one, other = Metrics(), Metrics()
    one.add_source(lambda: [Sample(DEPTH, ("a",), 1)])
    assert _parse(other) == {}


def test_open_metrics_is_spoken_to_those_who_ask() -> None:
    metrics = Metrics()
    metrics.add_source(lambda: [Sample(ADDS, ("a",), 3)])
    text, content_type = metrics.expose("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_samples_with_the_same_labels_become_one() -> None:
    mine, theirs = Tally((1,)), Tally((1,))
    mine.add(0.5)
    theirs.add(2)
    metrics = Metrics()
    for adds, depth, tally in ((3, 7, mine), (4, 1, theirs)):
        samples = [Sample(ADDS, ("a",), adds), Sample(DEPTH, ("a",), depth), Sample(WAIT, ("a",), tally)]
        metrics.add_source(lambda samples=samples: samples)  # type: ignore[misc]
    found = _parse(metrics)
    assert found["workqueue_adds_total{name=a}"] == 7
    assert found["workqueue_depth{name=a}"] == 7
    assert found["workqueue_queue_duration_seconds_count{name=a}"] == 2
    assert found["workqueue_queue_duration_seconds_sum{name=a}"] == 2.5
    assert mine.count == 1
    with pytest.raises(ValueError, match="equal bounds"):
        mine.plus(Tally((2,)))


def test_families_without_samples_are_announced() -> None:
    metrics = Metrics()
    metrics.add_source(list, (ADDS, WAIT))
    text = metrics.expose()[0].decode()
    assert "# TYPE workqueue_adds_total counter" in text
    assert "# TYPE workqueue_queue_duration_seconds histogram" in text
