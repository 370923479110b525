"""What a human sees in `kubectl get`."""

import pytest

from ctl.sandbox.tables import duration, json_path


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (135, "2m15s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (47 * 3600, "47h"),
        (3 * 86400, "3d"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (800 * 86400, "2y"),
        (-5, "0s"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_paths_of_printer_columns() -> None:
    body = {
        "spec": {"a.b": 1, "list": [{"x": 1}, {"x": 2}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert json_path(body, "spec.list[1].x") == 2
    assert json_path(body, "spec.a\\.b") == 1
    assert json_path(body, "spec['a.b']") == 1
    assert json_path(body, '.status.conditions[?(@.type=="Ready")].status') == "True"
    assert json_path(body, '.status.conditions[?(@.type=="Gone")].status') is None
    assert json_path(body, "spec.none.x") is None
    assert json_path(body, "spec.list[7]") is None
