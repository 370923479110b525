"""The built-in kinds, as a table in the order in which the real server announces them."""

from typing import Final

from .resources import ALL_VERBS, Resource, Traits

# plural | Kind | N(amespaced) or C(luster) | short names | categories | flags
#   s status subresource          g generation             r a PUT needs a resourceVersion
#   p PUT may create              d DELETE answers with the object
#   f names are path segments     l names are DNS labels   a annotations count for the generation
#   c create only (reviews)       o objects are deleted one by one only
_TABLE: Final = """
/v1
configmaps ConfigMap N cm - -
endpoints Endpoints N ep - p
events Event N ev - p
limitranges LimitRange N limits - p
namespaces Namespace C ns - sdlo
nodes Node C no - s
persistentvolumeclaims PersistentVolumeClaim N pvc - sd
persistentvolumes PersistentVolume C pv - sd
pods Pod N po all sgd
podtemplates PodTemplate N - - gd
replicationcontrollers ReplicationController N rc all sg
resourcequotas ResourceQuota N quota - sd
secrets Secret N - - -
serviceaccounts ServiceAccount N sa - d
services Service N svc all spdl
apiregistration.k8s.io/v1
apiservices APIService C - api-extensions s
apps/v1
controllerrevisions ControllerRevision N - - -
daemonsets DaemonSet N ds all sg
deployments Deployment N deploy all sga
replicasets ReplicaSet N rs all sg
statefulsets StatefulSet N sts all sg
events.k8s.io/v1
events Event N ev - p
authentication.k8s.io/v1
selfsubjectreviews SelfSubjectReview C - - c
tokenreviews TokenReview C - - c
authorization.k8s.io/v1
localsubjectaccessreviews LocalSubjectAccessReview N - - c
selfsubjectaccessreviews SelfSubjectAccessReview C - - c
selfsubjectrulesreviews SelfSubjectRulesReview C - - c
subjectaccessreviews SubjectAccessReview C - - c
autoscaling/v2
horizontalpodautoscalers HorizontalPodAutoscaler N hpa all sg
autoscaling/v1
horizontalpodautoscalers HorizontalPodAutoscaler N hpa all sg
batch/v1
cronjobs CronJob N cj all sg
jobs Job N - all sg
networking.k8s.io/v1
ingressclasses IngressClass C - - g
ingresses Ingress N ing - sg
networkpolicies NetworkPolicy N netpol - g
policy/v1
poddisruptionbudgets PodDisruptionBudget N pdb - sgr
rbac.authorization.k8s.io/v1
clusterrolebindings ClusterRoleBinding C - - pf
clusterroles ClusterRole C - - pf
rolebindings RoleBinding N - - pf
roles Role N - - pf
storage.k8s.io/v1
storageclasses StorageClass C sc - d
admissionregistration.k8s.io/v1
mutatingwebhookconfigurations MutatingWebhookConfiguration C - api-extensions gr
validatingwebhookconfigurations ValidatingWebhookConfiguration C - api-extensions gr
apiextensions.k8s.io/v1
customresourcedefinitions CustomResourceDefinition C crd,crds api-extensions sg
scheduling.k8s.io/v1
priorityclasses PriorityClass C pc - g
coordination.k8s.io/v1
leases Lease N - - pr
discovery.k8s.io/v1
endpointslices EndpointSlice N - - g
"""

_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_FIELDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "events"): _EVENT_FIELDS,
    ("events.k8s.io", "events"): _EVENT_FIELDS,
    ("", "namespaces"): ("status.phase",),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
}


def _words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def _verbs(flags: str) -> tuple[str, ...]:
    if "c" in flags:
        return ("create",)
    return tuple(verb for verb in ALL_VERBS if verb != "deletecollection") if "o" in flags else ALL_VERBS


def _resource(group: str, version: str, line: str) -> Resource:
    plural, kind, scope, shorts, categories, flags = line.split()
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=scope == "N",
        singular=kind.lower(),
        list_kind=kind if "c" in flags else f"{kind}List",
        short_names=_words(shorts),
        categories=_words(categories),
        verbs=_verbs(flags),
        has_status="s" in flags,
        traits=Traits(
            generation="g" in flags,
            unconditional="r" not in flags,
            create_on_update="p" in flags,
            returns_deleted="d" in flags,
            free_names="f" in flags,
            label_names="l" in flags,
            annotations_count="a" in flags,
        ),
        fields=_FIELDS.get((group, plural), ()),
    )


def builtin_resources() -> list[Resource]:
    """Every built-in kind in the order of the real server's discovery; a fresh list each time."""
    found: list[Resource] = []
    group = version = ""
    for line in _TABLE.strip().splitlines():
        if "/" in line:
            group, _, version = line.partition("/")
        else:
            found.append(_resource(group, version, line))
    return found


BUILTIN_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
