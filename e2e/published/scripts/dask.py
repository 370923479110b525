"""dask-kubernetes: clusters of Dask, with their workers, jobs and autoscalers.

Its handlers write their own and other objects with `kr8s`, wait for fields of the status that they or others write, adopt manifests
that share dicts, call one another, and poll by timers. The definitions of its resources come with it; Dask's scheduler
is stubbed.
"""

import copy
from collections.abc import AsyncIterator, Callable

import yaml
from conformance.api import Body
from published import environment
from published.stage import Published, Stage

DASK = "/apis/kubernetes.dask.org/v1/namespaces/NAMESPACE"
CORE = "/api/v1/namespaces/NAMESPACE"
DEPLOYMENTS = "/apis/apps/v1/namespaces/NAMESPACE/deployments"
RUNNERS = f"{CORE}/pods?labelSelector=dask.org/component%3Djob-runner"
PORTS = (("tcp-comm", 8786), ("http-dashboard", 8787))


def definitions() -> list[Body]:
    folder = environment.site_packages() / "dask_kubernetes" / "operator" / "deployment" / "helm"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("dask-kubernetes-operator/crds/*.yaml"))]


def cluster(name: str, replicas: int) -> Body:
    container = {"image": "nowhere/dask", "ports": [{"name": "http-dashboard", "containerPort": 8788}]}
    worker_env = [{"name": "WORKER_ENV", "value": "hello-world"}]
    labels = {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    ports = [{"name": text, "protocol": "TCP", "port": port, "targetPort": text} for text, port in PORTS]
    return {
        "worker": {
            "replicas": replicas,
            "metadata": {"labels": {"worker-sublabel": "v"}, "annotations": {"worker-subannotation": "v"}},
            "spec": {"containers": [{**container, "name": "worker", "env": worker_env}]},
        },
        "scheduler": {
            "metadata": {"labels": {"scheduler-sublabel": "v"}, "annotations": {"scheduler-subannotation": "v"}},
            "spec": {"containers": [{**container, "name": "scheduler"}]},
            "service": {"type": "LoadBalancer", "selector": labels, "ports": ports},
        },
    }


def known_as(body: Body) -> str:
    """A Deployment of workers, by its group."""
    labels = body["metadata"].get("labels", {})
    if body["kind"] == "Deployment" and labels.get("dask.org/component") == "worker":
        return f"a worker of {labels['dask.org/workergroup-name']}"
    return str(body["metadata"]["name"])


def is_(status: str) -> Callable[[Body], bool]:
    """What holds for a job of this status."""
    return lambda body: body.get("status", {}).get("jobStatus") == status


async def play(stage: Stage) -> AsyncIterator[str]:
    head = {"apiVersion": "kubernetes.dask.org/v1"}
    where, group = f"{DASK}/daskclusters/simple", f"{DASK}/daskworkergroups/simple-default"
    await stage.start()
    meta = {"labels": {"test-label": "v"}, "annotations": {"test-annotation": "v", "kopf.zalando.org/foobar": "v"}}
    body = {**head, "kind": "DaskCluster", "metadata": {"name": "simple", **meta}, "spec": cluster("simple", 2)}
    await stage.create(f"{DASK}/daskclusters", body)
    await stage.until(where, lambda body: body.get("status", {}).get("phase") == "Pending")
    await stage.counts(DEPLOYMENTS, 3)
    await stage.handled(where)
    await stage.handled(group)
    yield "creation"

    # There is no cloud: what it would say is said for it.
    await stage.merge(
        f"{CORE}/services/simple-scheduler/status", {"status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}}
    )
    await stage.until(where, lambda body: body["status"]["phase"] == "Running")
    yield "the Service has an address"

    change = copy.deepcopy(cluster("simple", 3))
    change["scheduler"]["metadata"]["labels"]["more"] = "v"
    await stage.merge(where, {"metadata": {"labels": {"more": "v"}}, "spec": {**change, "idleTimeout": 0}})
    await stage.counts(DEPLOYMENTS, 4)
    await stage.handled(where, saying='"replicas":3')
    await stage.handled(group, saying='"replicas":3')
    yield "update of several fields at once"

    await stage.stop()
    await stage.merge(where, {"spec": {"worker": {"replicas": 4}}})
    await stage.start()
    await stage.counts(DEPLOYMENTS, 5)
    await stage.handled(where, saying='"replicas":4')
    await stage.handled(group, saying='"replicas":4')
    yield "restart, with an update in between"

    await stage.merge(where, {"spec": {"worker": {"replicas": 2}}})
    await stage.counts(DEPLOYMENTS, 3)
    await stage.handled(where, saying='"replicas":2')
    await stage.handled(group, saying='"replicas":2')
    yield "two workers less"

    scaler = {"cluster": "simple", "minimum": 1, "maximum": 5}
    await stage.create(
        f"{DASK}/daskautoscalers", {**head, "kind": "DaskAutoscaler", "metadata": {"name": "auto"}, "spec": scaler}
    )
    await stage.until(f"{DASK}/daskautoscalers/auto", lambda body: body["metadata"].get("ownerReferences"))
    await stage.handled(f"{DASK}/daskautoscalers/auto")
    yield "an autoscaler comes"

    job = {
        "job": {"spec": {"containers": [{"name": "job", "image": "nowhere/dask"}]}},
        "cluster": {"spec": cluster("job", 1)},
    }
    await stage.create(f"{DASK}/daskjobs", {**head, "kind": "DaskJob", "metadata": {"name": "job"}, "spec": job})
    await stage.until(f"{DASK}/daskjobs/job", is_("ClusterCreated"))
    await stage.until(f"{DASK}/daskclusters/job", lambda body: body.get("status", {}).get("phase") == "Pending")
    await stage.counts(DEPLOYMENTS, 5)
    yield "a job comes"

    # There is no kubelet: what it would say is said for it.
    for phase, status in (("Running", "Running"), ("Succeeded", "Successful")):
        await stage.merge(f"{CORE}/pods/job-runner/status", {"status": {"phase": phase}})
        await stage.until(f"{DASK}/daskjobs/job", is_(status))
        yield f"its pod is {phase}"
    await stage.gone(f"{DASK}/daskclusters/job")

    await stage.delete(where)
    await stage.gone(where)
    await stage.gone(group)
    await stage.delete(f"{DASK}/daskjobs/job")
    await stage.gone(f"{DASK}/daskjobs/job")
    await stage.counts(DEPLOYMENTS, 0)
    yield "deletion"
    await stage.stop()
    yield "end"


OPERATOR = Published(
    name="dask-kubernetes",
    version="2026.3.0",
    modules=["scheduler_of_dask", "dask_kubernetes.operator.controller"],
    definitions=definitions,
    kept=[
        *(f"{DASK}/{plural}" for plural in ("daskclusters", "daskworkergroups", "daskjobs", "daskautoscalers")),
        DEPLOYMENTS,
        f"{CORE}/services",
        RUNNERS,
    ],
    play=play,
    stubs="dask_kubernetes",
    known_as=known_as,
    generated=((r"default-worker-[0-9a-f]{10}", "default-worker-GENERATED"),),
)
