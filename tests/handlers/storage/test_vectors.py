"""What Kopf 1.45.2 answered to the same input; `record_kopf.py` says how it was recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body
from ctl.handlers.storage import diffbase, progress

FOLDER = Path(__file__).parent
DIFFBASE: dict[str, list[Any]] = json.loads((FOLDER / "kopf_diffbase.json").read_text(encoding="utf-8"))
PROGRESS: dict[str, list[Any]] = json.loads((FOLDER / "kopf_progress.json").read_text(encoding="utf-8"))
NAMES: dict[str, list[Any]] = json.loads((FOLDER / "kopf_names.json").read_text(encoding="utf-8"))


def make(spec: list[Any]) -> Any:
    name, options = spec
    cls = getattr(diffbase, name, None) or getattr(progress, name)
    return cls([make(inner) for inner in options]) if isinstance(options, list) else cls(**options)


def patched(change: Callable[[Patch], None]) -> dict[str, Any]:
    patch = Patch()
    change(patch)
    return dict(patch)


@pytest.mark.parametrize(("prefix", "key", "plain", "of_replicas"), NAMES["names"])
def test_names_are_those_of_kopf(prefix: str, key: str, plain: list[str], of_replicas: list[str]) -> None:
    storage = progress.AnnotationsProgressStorage(prefix=prefix)
    replicas = Body({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}})
    assert storage.make_keys(key) == plain
    assert storage.make_keys(key, body=replicas) == of_replicas
    assert progress.AnnotationsProgressStorage(prefix=prefix, v1=False).make_keys(key) == plain[:1]


@pytest.mark.parametrize(("spec", "raw", "extra", "expected"), DIFFBASE["build"])
def test_essences_are_those_of_kopf(spec: list[Any], raw: dict[str, Any], extra: Any, expected: Any) -> None:
    before = json.dumps(raw)
    assert make(spec).build(body=Body(raw), extra_fields=extra) == expected
    assert json.dumps(raw) == before


@pytest.mark.parametrize(("spec", "raw", "expected"), DIFFBASE["fetch"])
def test_diffbases_are_found_as_by_kopf(spec: list[Any], raw: dict[str, Any], expected: Any) -> None:
    assert make(spec).fetch(body=Body(raw)) == expected


@pytest.mark.parametrize(("spec", "raw", "essence", "expected"), DIFFBASE["store"])
def test_diffbases_are_stored_as_by_kopf(spec: list[Any], raw: dict[str, Any], essence: Any, expected: Any) -> None:
    assert patched(lambda patch: make(spec).store(body=Body(raw), patch=patch, essence=essence)) == expected


@pytest.mark.parametrize(("spec", "raw", "key", "expected"), PROGRESS["fetch"])
def test_records_are_found_as_by_kopf(spec: list[Any], raw: dict[str, Any], key: str, expected: Any) -> None:
    assert make(spec).fetch(key=key, body=Body(raw)) == expected


@pytest.mark.parametrize(("spec", "raw", "key", "record", "expected"), PROGRESS["store"])
def test_records_are_stored_as_by_kopf(
    spec: list[Any], raw: dict[str, Any], key: str, record: Any, expected: Any
) -> None:
    assert patched(lambda patch: make(spec).store(key=key, record=record, body=Body(raw), patch=patch)) == expected


@pytest.mark.parametrize(("spec", "raw", "key", "expected"), PROGRESS["purge"])
def test_records_are_purged_as_by_kopf(spec: list[Any], raw: dict[str, Any], key: str, expected: Any) -> None:
    assert patched(lambda patch: make(spec).purge(key=key, body=Body(raw), patch=patch)) == expected


@pytest.mark.parametrize(("spec", "raw", "value", "expected"), PROGRESS["touch"])
def test_objects_are_touched_as_by_kopf(spec: list[Any], raw: dict[str, Any], value: Any, expected: Any) -> None:
    assert patched(lambda patch: make(spec).touch(body=Body(raw), patch=patch, value=value)) == expected


@pytest.mark.parametrize(("spec", "essence", "expected"), PROGRESS["clear"])
def test_essences_are_cleared_as_by_kopf(spec: list[Any], essence: dict[str, Any], expected: Any) -> None:
    before = json.dumps(essence)
    assert make(spec).clear(essence=essence) == expected
    assert json.dumps(essence) == before
