import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kubernetes
import kubernetes_asyncio
import pytest

from ctl.client.resources import Resource
from ctl.handlers.causes.causes import Activity, ActivityCause, SpawningCause
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body
from ctl.handlers.kopf import hierarchies as h

from .handling import handling

OWNER = Body(
    {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "own", "namespace": "ns", "uid": "u", "labels": {"l": "1", "m": "2"}},
    }
)
REFERENCE = {
    "controller": True,
    "blockOwnerDeletion": True,
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "own",
    "uid": "u",
}
LIBRARIES = [kubernetes.client, kubernetes_asyncio.client]


def cause(body: Body) -> SpawningCause:
    return SpawningCause(
        logger=logging.getLogger(), memo=None, resource=Resource("", "v1", "pods"), patch=Patch(), body=body
    )


def changed(change: Callable[[dict[str, Any]], None], obj: dict[str, Any]) -> dict[str, Any]:
    change(obj)
    return obj


def test_references() -> None:
    assert h.build_object_reference(OWNER) == {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "name": "own",
        "uid": "u",
        "namespace": "ns",
    }
    assert h.build_object_reference(Body({"kind": "", "metadata": {"name": "n"}})) == {"name": "n"}
    assert h.build_owner_reference(OWNER) == REFERENCE
    assert h.build_owner_reference(Body({}), controller=None, block_owner_deletion=False) == {
        "blockOwnerDeletion": False
    }


def test_owners_are_appended_once_and_removed() -> None:
    obj: dict[str, Any] = {"metadata": {"ownerReferences": [{"uid": "other"}]}}
    h.append_owner_reference(obj, OWNER)
    h.append_owner_reference(obj, OWNER, controller=False)
    assert obj == {"metadata": {"ownerReferences": [{"uid": "other"}, REFERENCE]}}
    h.remove_owner_reference(obj, OWNER)
    assert obj == {"metadata": {"ownerReferences": [{"uid": "other"}]}}
    assert changed(lambda obj: h.remove_owner_reference(obj, OWNER), {}) == {"metadata": {"ownerReferences": []}}


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        ({}, {}, {"generateName": "n-"}),
        ({"strict": True}, {}, {"name": "n"}),
        ({}, {"name": "x"}, {"name": "x"}),
        ({}, {"generateName": "x"}, {"generateName": "x"}),
        ({"strict": True}, {"generateName": "x"}, {"generateName": "x"}),
        ({}, {"name": None}, {"name": None}),
        ({"forced": True}, {"name": "x", "generateName": "y"}, {"generateName": "n-"}),
        ({"forced": True, "strict": True}, {"name": "x", "generateName": "y"}, {"name": "n"}),
    ],
)
def test_names(options: dict[str, bool], before: dict[str, Any], after: dict[str, Any]) -> None:
    obj = {"metadata": dict(before)} if before else {}
    assert changed(lambda obj: h.harmonize_naming(obj, "n", **options), obj) == {"metadata": after}


def test_a_name_is_required() -> None:
    with pytest.raises(LookupError, match="Name must be set explicitly"):
        h.harmonize_naming({}, None)
    with pytest.raises(LookupError, match="Name must be set explicitly"):
        h.adopt({}, Body({}))


@pytest.mark.parametrize(
    ("namespace", "forced", "before", "after"),
    [
        ("n", False, {}, {"namespace": "n"}),
        ("n", False, {"namespace": None}, {"namespace": "n"}),
        ("n", False, {"namespace": "x"}, {"namespace": "x"}),
        ("n", True, {"namespace": "x"}, {"namespace": "n"}),
        (None, True, {"namespace": "x"}, {"namespace": None}),
        (None, False, {}, {"namespace": None}),
    ],
)
def test_namespaces(namespace: str | None, forced: bool, before: dict[str, Any], after: dict[str, Any]) -> None:
    obj = {"metadata": dict(before)}
    assert changed(lambda obj: h.adjust_namespace(obj, namespace, forced=forced), obj) == {"metadata": after}


def test_labels_are_kept_unless_forced() -> None:
    obj: dict[str, Any] = {"metadata": {"labels": {"a": "x"}}}
    h.label(obj, {"a": "b", "c": "d"})
    assert obj == {"metadata": {"labels": {"a": "x", "c": "d"}}}
    h.label(obj, {"a": "b"}, forced=True)
    assert obj == {"metadata": {"labels": {"a": "b", "c": "d"}}}


def test_the_old_name_of_forcing_still_works() -> None:
    obj: dict[str, Any] = {"metadata": {"labels": {"a": "x"}}}
    with pytest.warns(DeprecationWarning, match="force= is deprecated in kopf.label\\(\\); use forced="):
        h.label(obj, {"a": "b"}, force=True)
    assert obj == {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize("nested", ["spec.template", ["spec.template"], [("spec", "template"), "x.y"], ["spec.none"]])
def test_nested_labels_where_there_is_something_nested(nested: Any) -> None:
    obj: dict[str, Any] = {"spec": {"template": {}, "none": None}}
    h.label(obj, {"a": "b"}, nested=nested)
    expected = {} if nested == ["spec.none"] else {"metadata": {"labels": {"a": "b"}}}
    assert obj["spec"]["template"] == expected
    assert obj["metadata"] == {"labels": {"a": "b"}}


def test_nested_lists_get_labels_on_each_item() -> None:
    obj: dict[str, Any] = {"spec": {"volumeClaimTemplates": [{}, {"metadata": {"name": "x"}}]}}
    h.label(obj, {"a": "b"}, nested="spec.volumeClaimTemplates")
    labels = {"labels": {"a": "b"}}
    assert obj["spec"]["volumeClaimTemplates"] == [{"metadata": labels}, {"metadata": {"name": "x", **labels}}]


def test_a_scalar_has_no_labels() -> None:
    with pytest.raises(TypeError, match="class is not supported: <class 'int'>"):
        h.label({"spec": {"replicas": 5}}, {"a": "b"}, nested="spec.replicas")


def test_adopting_does_it_all() -> None:
    obj: dict[str, Any] = {"spec": {"template": {}}}
    h.adopt(obj, OWNER, nested="spec.template")
    labels = {"l": "1", "m": "2"}
    assert obj == {
        "spec": {"template": {"metadata": {"labels": labels}}},
        "metadata": {"ownerReferences": [REFERENCE], "generateName": "own-", "namespace": "ns", "labels": labels},
    }


def test_adopting_respects_what_is_there_unless_forced() -> None:
    def own() -> dict[str, Any]:
        return {"metadata": {"name": "x", "namespace": "y", "labels": {"l": "z"}}}

    kept = changed(lambda obj: h.adopt(obj, OWNER), own())["metadata"]
    assert (kept["name"], kept["namespace"], kept["labels"]) == ("x", "y", {"l": "z", "m": "2"})
    forced = changed(lambda obj: h.adopt(obj, OWNER, forced=True, strict=True), own())["metadata"]
    assert (forced["name"], forced["namespace"], forced["labels"]) == ("own", "ns", {"l": "1", "m": "2"})


@pytest.mark.parametrize(
    "wrap", [list, tuple, lambda objs: (obj for obj in objs), lambda objs: [[objs[0]], None, objs[1]]]
)
def test_many_objects_at_once(wrap: Callable[[list[dict[str, Any]]], Any]) -> None:
    objs: list[dict[str, Any]] = [{}, {}]
    h.adopt(wrap(objs), OWNER)
    assert objs[0] == objs[1]
    assert set(objs[0]["metadata"]) == {"ownerReferences", "generateName", "namespace", "labels"}


@pytest.mark.parametrize("obj", [5, "text", b"bytes", Body({}), [{}, 5], object()])
def test_what_is_no_object_is_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match="K8s object class is not supported"):
        h.adopt(obj, OWNER)


def test_no_object_is_none() -> None:
    h.adopt(None, OWNER)


def test_pykube_objects_are_unwrapped() -> None:
    child, owner = SimpleNamespace(obj=dict[str, Any]()), SimpleNamespace(obj=dict(OWNER))
    h.adopt(child, owner)
    assert child.obj["metadata"]["ownerReferences"] == [REFERENCE]


def test_what_objects_share_is_changed_for_all_of_them() -> None:
    shared = {"app": "x"}
    obj: dict[str, Any] = {"metadata": {"labels": shared}, "spec": {"selector": {"matchLabels": shared}}}
    h.label(obj, {"a": "b"})
    assert obj["spec"]["selector"]["matchLabels"] == {"app": "x", "a": "b"}
    h.adopt(obj, OWNER)
    assert obj["spec"]["selector"]["matchLabels"] is obj["metadata"]["labels"] is shared
    assert shared == {"app": "x", "a": "b", "l": "1", "m": "2"}
    h.label(obj, {"app": "y"}, forced=True)
    assert shared["app"] == "y"


def test_nested_objects_that_share_are_changed_in_place() -> None:
    labels, metadata = {"app": "x"}, {"name": "n"}
    obj = {"metadata": metadata, "spec": {"template": {"metadata": {"labels": labels}}}}
    h.adopt(obj, OWNER, nested="spec.template", forced=True, strict=True)
    assert labels == {"app": "x", "l": "1", "m": "2"}
    assert (metadata["name"], metadata["namespace"]) == ("own", "ns")
    assert obj["metadata"] is metadata


def test_references_that_objects_share_are_changed_in_place() -> None:
    shared: list[dict[str, Any]] = [{"uid": "other"}]
    one, two = {"metadata": {"ownerReferences": shared}}, {"metadata": {"ownerReferences": shared}}
    h.append_owner_reference([one, two], OWNER)
    assert shared == [{"uid": "other"}, REFERENCE]
    h.remove_owner_reference(one, OWNER)
    assert shared == [{"uid": "other"}]
    assert two["metadata"]["ownerReferences"] is shared


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_models_share_is_changed_for_all_of_them(library: Any) -> None:
    reference = library.V1OwnerReference(api_version="v1", kind="Pod", name="p", uid="other")
    metadata = library.V1ObjectMeta(name="x", labels={"app": "x"}, owner_references=[reference])
    template = library.V1PodTemplateSpec(metadata=metadata)
    obj = library.V1Deployment(
        metadata=metadata, spec=library.V1DeploymentSpec(selector=library.V1LabelSelector(), template=template)
    )
    # Some models copy what they are made of.
    labels, references = obj.metadata.labels, obj.metadata.owner_references
    h.adopt(obj, OWNER, nested="spec.template")
    assert labels == template.metadata.labels == {"app": "x", "l": "1", "m": "2"}
    assert [one.uid for one in references] == ["other", "u"]
    h.remove_owner_reference(obj, OWNER)
    assert references == [reference]


@pytest.mark.parametrize("library", LIBRARIES)
def test_classes_that_inherit_from_models_are_models(library: Any) -> None:
    pod = type("Pod", (library.V1Pod,), {"__module__": "my.models"})()
    h.adopt(pod, OWNER)
    assert pod.metadata.owner_references[0].uid == "u"


def test_objects_of_kr8s_are_unwrapped() -> None:
    child = SimpleNamespace(raw={"metadata": {"labels": {}}})
    labels = child.raw["metadata"]["labels"]
    h.adopt(child, SimpleNamespace(raw=dict(OWNER)))
    assert child.raw["metadata"]["ownerReferences"] == [REFERENCE]
    assert labels == {"l": "1", "m": "2"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_models(library: Any) -> None:
    pod = library.V1Pod()
    h.adopt(pod, OWNER)
    [reference] = pod.metadata.owner_references
    assert isinstance(reference, library.V1OwnerReference)
    assert (reference.api_version, reference.uid, reference.block_owner_deletion) == ("kopf.dev/v1", "u", True)
    assert (pod.metadata.generate_name, pod.metadata.name, pod.metadata.namespace) == ("own-", None, "ns")
    assert pod.metadata.labels == {"l": "1", "m": "2"}
    h.append_owner_reference(pod, OWNER)
    assert len(pod.metadata.owner_references) == 1
    h.harmonize_naming(pod, "exact", strict=True)
    assert pod.metadata.generate_name == "own-"
    h.harmonize_naming(pod, "exact", strict=True, forced=True)
    assert (pod.metadata.generate_name, pod.metadata.name) == (None, "exact")
    h.remove_owner_reference(pod, OWNER)
    assert pod.metadata.owner_references == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_fields_nested_in_models_are_named_as_in_the_api(library: Any) -> None:
    template = library.V1JobTemplateSpec(spec=library.V1JobSpec(template=library.V1PodTemplateSpec()))
    job = library.V1CronJob(
        metadata=library.V1ObjectMeta(name="x", labels={"l": "kept"}),
        spec=library.V1CronJobSpec(schedule="* * * * *", job_template=template),
    )
    h.adopt(job, OWNER, nested=["spec.jobTemplate", "spec.jobTemplate.spec.template", "spec.absent"])
    assert job.metadata.labels == {"l": "kept", "m": "2"}
    assert template.metadata.labels == template.spec.template.metadata.labels == {"l": "1", "m": "2"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_models_as_owners(library: Any) -> None:
    metadata = library.V1ObjectMeta(name="own", namespace="ns", uid="u", labels={"l": "1"})
    owner = library.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata)
    child = changed(lambda obj: h.adopt(obj, owner), {})
    assert child["metadata"]["ownerReferences"][0]["name"] == "own"
    assert child["metadata"]["labels"] == {"l": "1"}


def test_the_owner_is_the_handled_object() -> None:
    explicit, implicit = dict[str, Any](), dict[str, Any]()
    h.adopt(explicit, OWNER)
    with handling(cause(OWNER)):
        h.adopt(implicit)
        named = changed(h.harmonize_naming, {})
        settled = changed(h.adjust_namespace, {})
        labelled = [changed(h.label, {}), changed(lambda obj: h.label(obj, None), {})]
        h.remove_owner_reference(implicit)
    explicit["metadata"]["ownerReferences"] = []
    assert implicit == explicit
    assert named == {"metadata": {"generateName": "own-"}}
    assert settled == {"metadata": {"namespace": "ns"}}
    assert labelled == [{"metadata": {"labels": {"l": "1", "m": "2"}}}] * 2


def test_outside_of_a_handler_of_an_object_the_owner_must_be_given() -> None:
    probe = ActivityCause(logger=logging.getLogger(), memo=None, activity=Activity.PROBE, settings=None)
    for call in (h.adopt, h.label, h.append_owner_reference, h.harmonize_naming, h.adjust_namespace):
        with pytest.raises(LookupError, match="outside of a handler"):
            call({})
        with handling(probe), pytest.raises(LookupError, match="outside of a handler"):
            call({})
