import copy
import gc
import json
import pickle
import weakref
from typing import Any

import pytest

from ctl.handlers.causes.views import Body, Meta, Spec, Status, View


def raw_body() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "n",
            "namespace": "ns",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"l": "1"},
            "annotations": {"a": "2"},
        },
        "spec": {"x": {"y": [1]}},
        "status": {"ready": True},
    }


def views(body: Body) -> list[View[Any]]:
    labels, annotations = body.meta.labels, body.meta.annotations
    assert isinstance(labels, View)
    assert isinstance(annotations, View)
    return [body, body.meta, body.spec, body.status, labels, annotations]


def test_stanzas_and_attributes() -> None:
    body = Body(raw_body())
    assert body.metadata is body.meta
    assert (body.meta.name, body.meta.namespace, body.meta.uid) == ("n", "ns", "u")
    assert body.meta.creation_timestamp == "2026-01-01T00:00:00Z"
    assert body.meta.deletion_timestamp is None
    assert body.meta.labels["l"] == "1"
    assert body.meta.annotations.get("a") == "2"
    assert body.spec["x"]["y"] == [1]
    assert body.status.get("ready")
    assert list(body) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert "spec" in body
    assert len(body.meta) == 6


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": {}, "spec": {}, "status": {}},
        {"metadata": {"labels": None, "annotations": None}},
    ],
)
def test_what_is_absent_or_null_looks_empty(raw: dict[str, Any]) -> None:
    body = Body(raw)
    for view in (body.spec, body.status, body.meta.labels, body.meta.annotations):
        assert view == {}
        assert not view
        assert view.get("x") is None
        with pytest.raises(KeyError, match="x"):
            view["x"]
    assert [body.meta.name, body.meta.uid, body.meta.namespace] == [None] * 3


def test_views_are_read_only_at_the_top_and_plain_below() -> None:
    body = Body(raw_body())
    for view in views(body):
        mutable: Any = view
        with pytest.raises(TypeError, match="does not support item assignment"):
            mutable["x"] = 1
        with pytest.raises(TypeError, match="does not support item deletion"):
            del mutable["x"]
        assert not hasattr(view, "setdefault")
    body.spec["x"]["y"].append(2)
    assert type(body["spec"]) is dict
    assert body["spec"] == {"x": {"y": [1, 2]}}


def test_views_are_equal_to_mappings_of_the_same_content() -> None:
    raw = raw_body()
    body = Body(raw)
    plain = [
        raw,
        raw["metadata"],
        raw["spec"],
        raw["status"],
        raw["metadata"]["labels"],
        raw["metadata"]["annotations"],
    ]
    for view, data in zip(views(body), plain, strict=True):
        assert view == data
        assert data == view
        assert dict(view) == data
        assert repr(view) == repr(data)
        assert view != {"other": 1}
        assert view != 1
        with pytest.raises(TypeError, match="unhashable"):
            hash(view)
    assert body == Body(raw_body())
    assert body.spec == Spec(raw_body())


def test_views_are_copied_pickled_and_dumped() -> None:
    body = Body(raw_body())
    for view in views(body):
        for made in (copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
            assert type(made) is type(view)
            assert made == view
        assert json.loads(json.dumps(dict(view))) == view
    copied, deep = copy.copy(body.spec), copy.deepcopy(body.spec)
    body.spec["x"]["y"].append(2)
    assert copied["x"]["y"] == [1, 2]
    assert deep["x"]["y"] == [1]


def test_views_of_a_stanza_can_be_made_from_a_body() -> None:
    for source in (raw_body(), Body(raw_body())):
        assert Spec(source) == {"x": {"y": [1]}}
        assert Status(source) == {"ready": True}
        assert Meta(source).name == "n"
    assert Body(Body(raw_body())) == raw_body()


def test_a_body_is_freed_with_its_last_reference() -> None:
    class Raw(dict[str, Any]):
        pass

    raw = Raw(raw_body())
    alive = weakref.ref(raw)
    gc.disable()
    try:
        body = Body(raw)
        spec, _ = body.spec, body.meta.labels
        del raw, body
        assert spec["x"]
        assert alive() is not None
        del spec, _
        assert alive() is None
    finally:
        gc.enable()
