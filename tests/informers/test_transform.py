from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.informers.transform import chain, drop_managed_fields, metadata_only, on_body, project

FIELDS = [{"manager": "m", "fieldsV1": {'k:{"type":"Ready"}': {".": {}}, "f:a]": {}}}]
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=8))
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "managedFields", "metadata", '"managedFields":[', "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def body(**extra: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **extra}


def from_body(value: dict[str, Any], indent: int | None = None) -> Object:
    raw = msgspec.json.encode(value)
    return Object.from_raw(raw if indent is None else msgspec.json.format(raw, indent=indent))


@pytest.mark.parametrize("order", [["first"], ["last"], ["first", "last"], []])
@pytest.mark.parametrize("indent", [None, 2])
def test_managed_fields_are_cut_out_wherever_they_stand(order: list[str], indent: int | None) -> None:
    metadata: dict[str, Any] = {"labels": {"x": "y"}} if "first" in order else {}
    metadata |= {"name": "a", "uid": "u", "resourceVersion": "5", "managedFields": FIELDS}
    metadata |= {"zone": "z"} if "last" in order else {}
    obj = from_body({"metadata": metadata, "spec": {"managedFields": [1]}}, indent)
    slim = drop_managed_fields(obj)
    expected = {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    assert slim.body() == expected | {"spec": {"managedFields": [1]}}
    assert (slim.uid, slim.resource_version) == ("u", "5")
    assert drop_managed_fields(slim) is slim or drop_managed_fields(slim) == slim


@given(st.dictionaries(st.sampled_from(["a", "managedFields", "labels"]), VALUES, max_size=3), VALUES, st.booleans())
def test_nothing_but_the_managed_fields_of_the_metadata_goes(
    metadata: dict[str, Any], spec: Any, repeated: bool
) -> None:
    if repeated and "managedFields" in metadata:
        spec = {"managedFields": metadata["managedFields"]}
    value = body(spec=spec)
    value["metadata"] |= metadata
    slim = drop_managed_fields(from_body(value)).body()
    value["metadata"].pop("managedFields", None)
    assert slim == value


def test_metadata_only_keeps_what_is_needed_to_know_an_object() -> None:
    value = body(spec={"large": "x" * 1000}, status={})
    value["metadata"] |= {"labels": {"a": "b"}, "managedFields": FIELDS}
    slim = metadata_only(from_body(value))
    assert set(slim.body()) == {"apiVersion", "kind", "metadata"}
    assert slim.metadata().labels == {"a": "b"}
    assert "managedFields" not in slim.body()["metadata"]


def test_a_projection_keeps_the_named_paths_and_the_identity() -> None:
    keep = project("spec.replicas", "status.conditions", ("metadata", "labels", "app.kubernetes.io/name"))
    value = body(spec={"replicas": 3, "template": {"large": 1}}, status={"conditions": [{"a": 1}], "other": 2}, data={})
    value["metadata"] |= {"labels": {"app.kubernetes.io/name": "x", "other": "y"}, "annotations": {"a": "b"}}
    slim = keep(from_body(value)).body()
    assert slim == body(spec={"replicas": 3}, status={"conditions": [{"a": 1}]}) | {
        "metadata": body()["metadata"] | {"labels": {"app.kubernetes.io/name": "x"}}
    }


@pytest.mark.parametrize("spec", [None, [], "text", 5])
def test_a_projection_leaves_out_what_is_not_as_expected(spec: Any) -> None:
    assert project("spec.replicas", "data")(from_body(body(spec=spec, data=None))).body() == body(data=None)


def test_a_projection_of_a_whole_takes_in_its_parts() -> None:
    assert project("spec", "spec.replicas")(from_body(body(spec={"a": 1}))).body() == body(spec={"a": 1})
    assert project("spec.replicas", "spec")(from_body(body(spec={"a": 1}))).body() == body(spec={"a": 1})


@pytest.mark.parametrize("path", ["", "spec..x", ()])
def test_a_path_that_names_nothing_is_refused(path: Any) -> None:
    with pytest.raises(ValueError, match=r"as in 'spec\.replicas'"):
        project(path)


def test_functions_and_chains() -> None:
    def shrink(value: dict[str, Any]) -> dict[str, Any]:
        return {key: part for key, part in value.items() if key != "data"}

    both = chain([on_body(shrink), project("spec")])
    assert both(from_body(body(spec=1, data=2, other=3))).body() == body(spec=1)
