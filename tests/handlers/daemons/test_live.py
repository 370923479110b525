"""The bodies of running daemons follow their objects, whatever is decoded of them."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.handlers.causes.causes import LARGE
from ctl.handlers.causes.fields import resolve
from ctl.handlers.causes.views import Body, Spec
from ctl.handlers.daemons.live import DecodedBodies, LiveBody


def version(number: int, size: int = 0, **metadata: Any) -> Object:
    body = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"l": f"{number}"}, **metadata}}
    return Object.from_body({**body, "spec": {"x": {"y": number}, "big": "x" * size}})


SIZES = [0, LARGE]


@pytest.mark.parametrize("size", SIZES)
def test_all_views_follow_the_object(size: int) -> None:
    body = LiveBody(version(1, size), DecodedBodies())
    spec, labels, meta = body.spec, body.meta.labels, body.meta
    assert [spec["x"], labels, meta.name, body.status] == [{"y": 1}, {"l": "1"}, "n", {}]
    body.show(version(2, size))
    assert [spec["x"], labels, meta.name, body.status] == [{"y": 2}, {"l": "2"}, "n", {}]
    assert body == Body(version(2, size).body()) == version(2, size).body()
    assert (body["kind"], body.get("apiVersion"), body.get("no", 1), "metadata" in body) == ("Thing", "v1", 1, True)
    assert body["metadata"]["labels"] == {"l": "2"}
    assert resolve(body, ("spec", "x", "y")) == Spec(body)["x"]["y"] == 2
    for copied in (copy.copy(body), pickle.loads(pickle.dumps(body)), Body(body), copy.deepcopy(body)):
        assert (type(copied), copied) == (Body, body)
    assert body.stub() == {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"l": "2"}}}
    with pytest.raises(KeyError):
        body["no"]


@pytest.mark.parametrize("size", SIZES)
def test_mutations_reach_no_other_body_and_last_while_they_are_looked_at(size: int) -> None:
    bodies, obj = DecodedBodies(), version(1, size)
    one, other = LiveBody(obj, bodies), LiveBody(obj, bodies)
    one.spec["x"]["y"] = "mutated"
    assert one.spec["x"]["y"] == "mutated"
    assert other.spec["x"]["y"] == 1


def test_the_longest_unused_of_the_large_ones_is_decoded_anew() -> None:
    bodies = DecodedBodies(limit=3 * LARGE)
    small, *large = [LiveBody(version(number, size), bodies) for number, size in enumerate((0, LARGE, LARGE, LARGE))]
    values = [body.spec["x"] for body in (small, *large)]
    assert small.spec["x"] is values[0]
    # Two have room. What was got of the first is whole, and is not what is got of it now.
    assert [large[1].spec["x"] is values[2], large[2].spec["x"] is values[3]] == [True, True]
    assert values[1] == large[0].spec["x"] == {"y": 1}
    assert large[0].spec["x"] is not values[1]
    assert [large[1].spec["x"] is values[2], large[2].spec["x"] is values[3]] == [False, False]
    kept = large[2].spec["x"]
    assert large[2].spec["x"] is kept
    bodies.clear()
    assert large[2].spec["x"] is not kept
    assert small.spec["x"] is values[0]


def test_one_above_the_limit_is_kept_alone_and_goes_with_its_body() -> None:
    class Value:
        pass

    bodies = DecodedBodies(limit=LARGE)
    body, other = LiveBody(version(1, LARGE), bodies), LiveBody(version(2, LARGE), bodies)
    value = Value()
    seen = weakref.ref(value)
    body.spec["x"]["value"] = value
    del value
    gc.disable()
    try:
        assert seen() is not None
        del body
        assert seen() is None
    finally:
        gc.enable()
    assert other.spec["x"] is other.spec["x"]


@pytest.mark.parametrize("size", SIZES)
def test_views_can_be_read_in_threads_while_versions_come(size: int) -> None:
    versions = [
        Object.from_body(
            {"metadata": {"name": "n"}, "spec": {str(key): number for key in range(20)}, "big": "x" * size}
        )
        for number in range(2)
    ]
    bodies = DecodedBodies(limit=LARGE)
    body, other, errors, stop = (LiveBody(versions[0], bodies), LiveBody(versions[0], bodies), [], threading.Event())

    def read(body: LiveBody) -> None:
        try:
            while not stop.is_set():
                assert len(set(body.spec.values())) == 1
                assert body.meta.name == "n"
        except Exception as exc:
            errors.append(exc)

    readers = [threading.Thread(target=read, args=(one,)) for one in (body, body, other)]
    for reader in readers:
        reader.start()
    for number in range(1000):
        body.show(versions[number % 2])
    stop.set()
    for reader in readers:
        reader.join(timeout=10)
    assert not errors
