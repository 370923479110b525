import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.handlers.causes.views import Body
from ctl.handlers.environment.memories import Memo
from ctl.handlers.indices import Index, Indices, Store


def content(index: Index[Any, Any]) -> dict[Any, list[Any]]:
    return {key: sorted(store) for key, store in index.items()}


def test_an_index_is_there_and_empty_from_the_start() -> None:
    indices = Indices(["one", "two"])
    assert set(indices) == {"one", "two"}
    assert not indices["one"]
    assert dict(indices["one"]) == {}
    assert "x" not in indices["one"]
    with pytest.raises(KeyError):
        indices["three"]
    with pytest.raises(KeyError):
        indices["one"]["x"]


def test_values_of_several_objects_under_one_key() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", {"x": 1, "y": 2})
    indices.replace("i", "b", {"x": 1})
    store = indices["i"]["x"]
    assert (sorted(store), len(store), 1 in store, 2 in store) == ([1, 1], 2, True, False)
    assert content(indices["i"]) == {"x": [1, 1], "y": [2]}
    assert repr(indices["i"]) == "{'x': [1, 1], 'y': [2]}"


def test_keys_that_an_object_has_no_more_are_dropped() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", {"x": 1, "y": 2})
    held = indices["i"]["x"]
    indices.replace("i", "a", {"y": 3, "z": 4})
    assert content(indices["i"]) == {"y": [3], "z": [4]}
    assert not held
    indices.replace("i", "a", {})
    assert not indices["i"]


def test_results_that_are_no_mapping_are_one_value_without_a_key() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", "text")
    indices.replace("i", "b", ["list"])
    indices.replace("i", "c", 0)
    assert len(indices["i"][None]) == 3


def test_no_result_changes_nothing() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", {"x": 1})
    indices.replace("i", "a", None)
    indices.replace("i", "b", None)
    assert content(indices["i"]) == {"x": [1]}


def test_views_of_bodies_are_mappings() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", Body({"metadata": {"labels": {"app": "x"}}}).metadata.labels)
    assert content(indices["i"]) == {"app": ["x"]}


def test_memos_are_mappings() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", Memo(x=1))
    assert content(indices["i"]) == {"x": [1]}


def test_objects_are_discarded_from_one_index_or_from_all() -> None:
    indices = Indices(["one", "two"])
    for name in indices:
        indices.replace(name, "a", {"x": 1})
        indices.replace(name, "b", {"x": 2})
    indices.discard("a", "one")
    assert (content(indices["one"]), content(indices["two"])) == ({"x": [2]}, {"x": [1, 2]})
    indices.discard("a")
    indices.discard("unknown")
    indices.discard("b")
    assert not any(indices.values())


def test_handlers_have_no_way_to_write() -> None:
    indices = Indices(["i"])
    indices.replace("i", "a", {"x": 1})
    index: Any = indices["i"]
    targets: list[Any] = [indices, index, index["x"]]
    for target in targets:
        with pytest.raises(TypeError):
            target["x"] = 1
    assert not any(hasattr(index["x"], name) for name in ("append", "add", "clear", "pop"))


def test_the_types_can_be_used_in_annotations() -> None:
    annotations: list[Any] = [Index[str, int], Store[int]]
    assert all(annotations)


KEYS = st.sampled_from(["x", "y", "z", None])
RESULTS = st.none() | st.integers(0, 3) | st.dictionaries(KEYS, st.integers(0, 3), max_size=3)
ACTIONS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.just("gone") | RESULTS), max_size=30)


@given(ACTIONS)
def test_an_index_holds_what_each_object_had_last(actions: list[tuple[str, Any]]) -> None:
    indices, model = Indices(["i"]), dict[str, dict[Any, int]]()
    for obj, result in actions:
        if result == "gone":
            indices.discard(obj)
            model.pop(obj, None)
        else:
            indices.replace("i", obj, result)
            if result is not None:
                model[obj] = result if isinstance(result, dict) else {None: result}
    expected: dict[Any, list[int]] = {}
    for values in model.values():
        for key, value in values.items():
            expected.setdefault(key, []).append(value)
    assert content(indices["i"]) == {key: sorted(values) for key, values in expected.items()}


def test_it_can_be_read_from_threads_while_it_is_written() -> None:
    indices, errors, stop = Indices(["i"]), list[object](), threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                for key, store in indices["i"].items():
                    assert list(store) in ([], [key])
                for key in indices["i"]:
                    indices["i"].get(key)
        except Exception as exc:
            errors.append(exc)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2000):
        indices.replace("i", "a", {key: key for key in range(number % 7)})
    stop.set()
    for reader in readers:
        reader.join(timeout=10)
    assert not errors
