"""The built-in kinds that operators make, from bodies as short as kubectl sends them."""

import base64
from typing import Any

import pytest
from conformance.api import MERGE, Api, Body
from conformance.spaces import Space, configmap

CONTAINERS = [{"name": "main", "image": "none"}]
LABELS = {"app": "one"}


def without(body: Body, *names: str) -> Body:
    return {name: value for name, value in body.items() if name not in names}


async def test_a_configmap_keeps_text_and_binary_data(api: Api, space: Space) -> None:
    body = configmap("one", {"text": "a\nb"}) | {"binaryData": {"bin": "AAEC"}}
    made = await api.create(space.core("configmaps"), body)
    assert without(made, "metadata") == without(body, "metadata")
    assert "generation" not in made["metadata"]
    patched = await api.merge(space.core("configmaps", "one"), {"data": {"text": None, "more": "1"}})
    assert patched["data"] == {"more": "1"}


async def test_a_configmap_of_a_number_is_refused(api: Api, space: Space) -> None:
    body = configmap("one") | {"data": {"a": 1}}
    status = (await api.call("POST", space.core("configmaps"), body)).refused(400, "BadRequest")
    assert status["message"].startswith(
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number'
    )


async def test_a_secret_takes_strings_and_keeps_base64(api: Api, space: Space) -> None:
    body = {"metadata": {"name": "one"}, "stringData": {"a": "text"}, "data": {"b": "Yg=="}}
    made = await api.create(space.core("secrets"), body)
    assert made["data"] == {"a": base64.b64encode(b"text").decode(), "b": "Yg=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made
    patched = await api.merge(space.core("secrets", "one"), {"stringData": {"a": "other"}})
    assert patched["data"] == {"a": base64.b64encode(b"other").decode(), "b": "Yg=="}


async def test_a_secret_of_no_base64_is_refused(api: Api, space: Space) -> None:
    body = {"metadata": {"name": "one"}, "data": {"b": "not base64!"}}
    (await api.call("POST", space.core("secrets"), body)).refused(400, "BadRequest")


async def test_a_lease_keeps_microseconds(api: Api, space: Space) -> None:
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.123456Z",
        "renewTime": "2026-01-02T03:04:05.100000Z",
        "leaseTransitions": 0,
    }
    path = space.grouped("coordination.k8s.io/v1", "leases")
    made = await api.create(path, {"metadata": {"name": "one"}, "spec": spec})
    assert (made["kind"], made["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert made["spec"] == spec
    # Any offset is read; a released lease has an empty holder.
    later = {**made, "spec": {**spec, "holderIdentity": "", "renewTime": "2026-01-02T05:04:15.000000+02:00"}}
    replaced = await api.replace(f"{path}/one", later)
    assert replaced["spec"] == {**spec, "holderIdentity": "", "renewTime": "2026-01-02T03:04:15.000000Z"}
    (await api.call("PUT", f"{path}/one", later)).refused(409, "Conflict")


@pytest.mark.parametrize("time", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1Z"])
async def test_a_time_in_microseconds_has_six_digits(api: Api, space: Space, time: str) -> None:
    path = space.grouped("coordination.k8s.io/v1", "leases")
    status = (await api.call("POST", path, {"metadata": {"name": "one"}, "spec": {"renewTime": time}})).refused(
        400, "BadRequest"
    )
    assert f'parsing time "{time}" as "2006-01-02T15:04:05.000000Z07:00"' in status["message"]


def event(space: Space, **parts: Any) -> Body:
    about = {"apiVersion": "v1", "kind": "Widget", "name": "x", "namespace": space.name, "uid": "some-uid"}
    return {
        "metadata": {"generateName": "e-"},
        "involvedObject": about,
        "reason": "Why",
        "message": "so",
        "type": "Normal",
        **parts,
    }


async def test_an_event_is_about_an_object(api: Api, space: Space) -> None:
    stamps = {"firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z", "count": 2}
    body = event(space, source={"component": "me"}, **stamps)
    made = await api.create(space.core("events"), body)
    assert without(made, "metadata", "kind", "apiVersion") == without(body, "metadata") | {
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    patched = await api.merge(space.core("events", made["metadata"]["name"]), {"count": 3, "message": "again"})
    assert (patched["count"], patched["message"]) == (3, "again")


async def test_an_event_with_its_time_says_who_did_what(api: Api, space: Space) -> None:
    told = {"action": "Acting", "reportingComponent": "ctl.test/c", "reportingInstance": "i"}
    body = event(space, eventTime="2026-01-02T03:04:05.000000Z", **told)
    await api.create(space.core("events"), body)
    for name in told:
        status = (await api.call("POST", space.core("events"), without(body, name))).refused(422, "Invalid")
        assert name in [cause["field"] for cause in status["details"]["causes"]]


async def test_an_event_in_another_namespace_than_its_object_is_refused(api: Api, space: Space) -> None:
    body = event(space)
    body["involvedObject"]["namespace"] = "other"
    status = (await api.call("POST", space.core("events"), body)).refused(422, "Invalid")
    assert "involvedObject.namespace" in status["message"]
    assert "does not match event.namespace" in status["message"]


async def test_an_event_about_a_cluster_scoped_object_is_in_default(api: Api, space: Space) -> None:
    body = event(space)
    del body["involvedObject"]["namespace"]
    (await api.call("POST", space.core("events"), body)).refused(422, "Invalid")
    made = await api.create("/api/v1/namespaces/default/events", body)
    await api.delete(f"/api/v1/namespaces/default/events/{made['metadata']['name']}")


async def test_the_same_events_are_served_by_both_groups(api: Api, space: Space) -> None:
    core, grouped = space.core("events"), space.grouped("events.k8s.io/v1", "events")
    stamp = {"eventTime": "2026-01-02T03:04:05.123456Z", "action": "Acting", "reportingInstance": "i"}
    old = await api.create(core, event(space, reportingComponent="ctl.test/c", **stamp) | {"metadata": {"name": "old"}})
    seen = await api.get(f"{grouped}/old")
    assert seen["metadata"]["uid"] == old["metadata"]["uid"]
    assert (seen["regarding"], seen["note"]) == (old["involvedObject"], "so")
    assert seen["reportingController"] == "ctl.test/c"

    body = {
        "metadata": {"name": "new"},
        "regarding": old["involvedObject"],
        "note": "so",
        "reason": "Why",
        "type": "Normal",
    }
    await api.create(grouped, body | stamp | {"reportingController": "ctl.test/c"})
    seen = await api.get(f"{core}/new")
    assert (seen["involvedObject"], seen["message"], seen["reportingComponent"]) == (
        old["involvedObject"],
        "so",
        "ctl.test/c",
    )


async def test_a_pod_is_stored_as_pending(api: Api, space: Space) -> None:
    made = await api.create(
        space.core("pods"), {"metadata": {"name": "one", "labels": LABELS}, "spec": {"containers": CONTAINERS}}
    )
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["containers"][0]["image"] == "none"
    assert made["metadata"]["generation"] == 1
    stated = await api.merge(
        space.core("pods", "one", "status"), {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    )
    assert stated["status"]["phase"] == "Running"
    assert "nodeName" not in stated["spec"]


async def test_the_status_of_a_builtin_takes_labels_along(api: Api, space: Space) -> None:
    # Unlike that of a custom resource.
    await api.create(space.core("pods"), {"metadata": {"name": "one"}, "spec": {"containers": CONTAINERS}})
    patch = {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    assert (await api.merge(space.core("pods", "one", "status"), patch))["metadata"]["labels"] == {"a": "b"}


async def test_a_pod_without_containers_is_refused(api: Api, space: Space) -> None:
    status = (await api.call("POST", space.core("pods"), {"metadata": {"name": "one"}, "spec": {}})).refused(
        422, "Invalid"
    )
    assert status["message"] == 'Pod "one" is invalid: spec.containers: Required value'


async def test_a_deployment_gets_its_defaults(api: Api, space: Space) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    body = {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}
    path = space.grouped("apps/v1", "deployments")
    made = await api.create(path, body)
    assert (made["kind"], made["apiVersion"]) == ("Deployment", "apps/v1")
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert made["metadata"]["generation"] == 1
    scaled = await api.merge(f"{path}/one", {"spec": {"replicas": 3}})
    assert scaled["spec"]["replicas"] == 3
    assert scaled["metadata"]["generation"] == 2
    scale = await api.get(f"{path}/one/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
    assert (await api.merge(f"{path}/one/scale", {"spec": {"replicas": 4}}))["spec"] == {"replicas": 4}
    assert (await api.get(f"{path}/one"))["spec"]["replicas"] == 4
    (await api.call("PUT", f"{path}/one/scale", scale)).refused(409, "Conflict")


async def test_a_deployment_whose_selector_misses_its_template_is_refused(api: Api, space: Space) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    body = {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": {"app": "two"}}, "template": template}}
    status = (await api.call("POST", space.grouped("apps/v1", "deployments"), body)).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.template.metadata.labels"


async def test_a_service_gets_its_address_and_ports(api: Api, space: Space) -> None:
    made = await api.create(
        space.core("services"), {"metadata": {"name": "one"}, "spec": {"selector": LABELS, "ports": [{"port": 80}]}}
    )
    assert made["spec"]["type"] == "ClusterIP"
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    assert made["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    patched = await api.merge(space.core("services", "one"), {"spec": {"ports": [{"port": 81}]}})
    assert patched["spec"]["clusterIP"] == made["spec"]["clusterIP"]


async def test_a_job_selects_its_own_pods(api: Api, space: Space) -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}}
    path = space.grouped("batch/v1", "jobs")
    made = await api.create(path, {"metadata": {"name": "one"}, "spec": spec})
    own = {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}
    assert made["spec"]["selector"] == {"matchLabels": own}
    assert made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "one"
    assert (made["spec"]["parallelism"], made["spec"]["completions"], made["spec"]["backoffLimit"]) == (1, 1, 6)


@pytest.mark.parametrize(
    ("group", "plural", "spec"),
    [
        ("v1", "serviceaccounts", {}),
        (
            "v1",
            "persistentvolumeclaims",
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        ),
        (
            "apps/v1",
            "statefulsets",
            {
                "spec": {
                    "serviceName": "one",
                    "selector": {"matchLabels": LABELS},
                    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}},
                },
            },
        ),
        (
            "networking.k8s.io/v1",
            "ingresses",
            {"spec": {"defaultBackend": {"service": {"name": "one", "port": {"number": 80}}}}},
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "roles",
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        ),
        (
            "batch/v1",
            "cronjobs",
            {
                "spec": {
                    "schedule": "* * * * *",
                    "suspend": True,
                    "jobTemplate": {
                        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}}
                    },
                },
            },
        ),
    ],
)
async def test_other_builtins_are_made_and_removed(api: Api, space: Space, group: str, plural: str, spec: Body) -> None:
    path = space.core(plural) if group == "v1" else space.grouped(group, plural)
    made = await api.create(path, {"metadata": {"name": "one", "labels": LABELS}, **spec})
    assert made["metadata"]["labels"] == LABELS
    listed = await api.get(path, labelSelector="app=one")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["one"]
    await api.delete(f"{path}/one", propagationPolicy="Background")


async def test_an_unknown_field_of_a_builtin_is_dropped(api: Api, space: Space) -> None:
    made = await api.create(space.core("configmaps"), configmap("one", {"a": "1"}) | {"unknown": {"b": "1"}})
    assert "unknown" not in made


async def test_an_owner_reference_is_kept_as_it_is(api: Api, space: Space) -> None:
    owner = await api.create(space.widgets(), space.widget("owner"))
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": "Widget",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made = await api.create(space.core("configmaps"), configmap("one", ownerReferences=[reference]))
    assert made["metadata"]["ownerReferences"] == [reference]
    second = {**reference, "uid": "another", "name": "another"}
    patch = {"metadata": {"ownerReferences": [reference, second]}}
    status = (await api.call("PATCH", space.core("configmaps", "one"), patch, kind=MERGE)).refused(422, "Invalid")
    assert "Only one reference can have Controller set to true" in status["message"]


async def test_an_access_review_says_what_is_allowed(api: Api, space: Space) -> None:
    body = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": space.name}}}
    made = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert made["status"]["allowed"] is True


async def test_a_put_brings_no_deleted_lease_back_to_life(api: Api, space: Space) -> None:
    """A PUT of an absent Lease creates it, unless it names the uid of another one: so a leader learns of the deletion."""
    path, one = (
        space.grouped("coordination.k8s.io/v1", "leases"),
        space.grouped("coordination.k8s.io/v1", "leases", "one"),
    )
    made = await api.create(path, {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}})
    await api.call("DELETE", one)
    status = (await api.call("PUT", one, made)).refused(409, "Conflict")
    assert f"UID in precondition: {made['metadata']['uid']}, UID in object meta: " in status["message"]
    fresh = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}
    assert (await api.call("PUT", one, fresh)).code == 201
