"""Built-in kinds are given the defaults that the real server writes into new objects."""

import base64
import zlib
from collections.abc import Callable
from typing import Any, Final

from . import definitions
from .resources import Resource

_EMPTY_STATUS: Final = frozenset(
    {
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "persistentvolumeclaims",
        "persistentvolumes",
        "nodes",
        "resourcequotas",
    }
)


def _fill(target: dict[str, Any], defaults: dict[str, Any]) -> None:
    for key, value in defaults.items():
        if target.get(key) is None or (value and target[key] == {}):
            target[key] = value


def _stanza(body: dict[str, Any], name: str) -> dict[str, Any]:
    found = body.get(name)
    if not isinstance(found, dict):
        found = body[name] = {}
    return found


def _pod_spec(spec: dict[str, Any]) -> None:
    _fill(
        spec,
        {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
    )
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        if isinstance(container, dict):
            image = str(container.get("image", ""))
            latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
            _fill(
                container,
                {
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always" if latest else "IfNotPresent",
                },
            )
            for port in container.get("ports") or ():
                if isinstance(port, dict):
                    _fill(port, {"protocol": "TCP"})


def _pod(body: dict[str, Any]) -> None:
    spec = _stanza(body, "spec")
    _pod_spec(spec)
    _fill(spec, {"enableServiceLinks": True})


def _workload(body: dict[str, Any]) -> None:
    template = _stanza(_stanza(body, "spec"), "template")
    _pod_spec(_stanza(template, "spec"))


def _deployment(body: dict[str, Any]) -> None:
    _workload(body)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    _fill(
        body["spec"],
        {"replicas": 1, "strategy": strategy, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    )


def _replicas(body: dict[str, Any]) -> None:
    _workload(body)
    _fill(body["spec"], {"replicas": 1})


def _name_label(body: dict[str, Any]) -> None:
    """Give a namespace the label with its name."""
    metadata = body["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}


def _namespace(body: dict[str, Any]) -> None:
    spec = _stanza(body, "spec")
    spec["finalizers"] = [*dict.fromkeys([*(spec.get("finalizers") or ()), "kubernetes"])]


def _secret(body: dict[str, Any]) -> None:
    fold_secret(body)
    _fill(body, {"type": "Opaque"})


def fold_secret(body: dict[str, Any]) -> None:
    """Move a Secret's stringData into data, encoded, in place."""
    plain = body.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        data = _stanza(body, "data")
        for key, value in plain.items():
            data[key] = base64.b64encode(str(value).encode()).decode()


def _service(body: dict[str, Any]) -> None:
    spec = _stanza(body, "spec")
    _fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["type"] != "ExternalName":
        _fill(spec, {"internalTrafficPolicy": "Cluster"})
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            _fill(port, {"protocol": "TCP", "targetPort": port.get("port")})


def _address(body: dict[str, Any]) -> None:
    """Give a new Service the address that follows from its uid; a real server keeps book of them."""
    spec = body["spec"]
    if spec["type"] == "ExternalName":
        return
    number = zlib.crc32(body["metadata"]["uid"].encode())
    _fill(spec, {"clusterIP": f"10.{96 + number % 16}.{number // 16 % 256}.{1 + number // 4096 % 254}"})
    _fill(spec, {"clusterIPs": [spec["clusterIP"]], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})


def _job(body: dict[str, Any]) -> None:
    _workload(body)
    spec = body["spec"]
    _fill(spec, {"backoffLimit": 6, "completionMode": "NonIndexed", "podReplacementPolicy": "TerminatingOrFailed"})
    for field, value in (("suspend", False), ("manualSelector", False)):
        spec.setdefault(field, value)
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    _fill(spec, {"parallelism": 1})


def _claim_pods(body: dict[str, Any]) -> None:
    """Let a new Job select its own pods by its uid, unless it selects by hand."""
    spec, meta = body["spec"], body["metadata"]
    if spec["manualSelector"]:
        return
    own = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    labels = {**{f"batch.kubernetes.io/{key}": value for key, value in own.items()}, **own}
    template = _stanza(spec["template"], "metadata")
    template["labels"] = {**(template.get("labels") or {}), **labels}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}
    meta.setdefault("labels", dict(template["labels"]))


def _event(body: dict[str, Any]) -> None:
    for field in ("involvedObject", "source"):
        _fill(body, {field: {}})
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        body.setdefault(field, None)
    _fill(body, {"reportingComponent": "", "reportingInstance": ""})


def _claim(body: dict[str, Any]) -> None:
    _fill(_stanza(body, "spec"), {"volumeMode": "Filesystem"})


def _binding(body: dict[str, Any]) -> None:
    """Say in which group users and groups are named."""
    for subject in body.get("subjects") or ():
        if isinstance(subject, dict) and subject.get("kind") in ("User", "Group"):
            _fill(subject, {"apiGroup": "rbac.authorization.k8s.io"})


_DEFAULTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "namespaces": _name_label,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "pods": _pod,
    "secrets": _secret,
    "services": _service,
    "events": _event,
    "persistentvolumeclaims": _claim,
    "deployments.apps": _deployment,
    "replicasets.apps": _replicas,
    "statefulsets.apps": _replicas,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    definitions.BUCKET: definitions.complete,
}
_BEGINNINGS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "namespaces": _namespace,
    "services": _address,
    "jobs.batch": _claim_pods,
    definitions.BUCKET: definitions.begin,
}
_NEW_STATUS: Final[dict[str, dict[str, Any]]] = {
    "namespaces": {"phase": "Active"},
    "pods": {"phase": "Pending", "qosClass": "BestEffort"},
    "services": {"loadBalancer": {}},
    "persistentvolumeclaims": {"phase": "Pending"},
}


def fill(resource: Resource, body: dict[str, Any]) -> None:
    """Write what the server adds to a new built-in object with its defaults (name and uid set), in place."""
    if resource.custom:
        return
    if found := _BEGINNINGS.get(resource.bucket):
        found(body)
    if resource.bucket in _NEW_STATUS:
        body["status"] = dict(_NEW_STATUS[resource.bucket])
    elif resource.bucket in _EMPTY_STATUS:
        body["status"] = {}


def complete(resource: Resource, body: dict[str, Any]) -> None:
    """Write the defaults of a built-in kind into a body where nothing is given, in place."""
    if not resource.custom and (found := _DEFAULTS.get(resource.bucket)):
        found(body)
