"""The chart makes what it says of every set of values: valid for the API, restricted, and with no right too many."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.conftest import EXAMPLE, PEERING
from charts.helm import CHART, VALUES, Helm, judge
from operators.auditing import granted as granted_by
from operators.processes import ctl_command

SETS = sorted(VALUES.glob("*.yaml"))
CODE = VALUES / "minimal.yaml"
Body = dict[str, Any]


def of_kind(documents: list[Body], kind: str) -> list[Body]:
    return [document for document in documents if document["kind"] == kind]


def only(documents: list[Body], kind: str) -> Body:
    (found,) = of_kind(documents, kind)
    return found


def pod_of(documents: list[Body]) -> Body:
    found: Body = only(documents, "Deployment")["spec"]["template"]["spec"]
    return found


def arguments(documents: list[Body]) -> list[str]:
    found: list[str] = pod_of(documents)["containers"][0]["args"]
    return found


def granted(documents: list[Body]) -> dict[str, list[Body]]:
    """The rules of each namespace; those of the cluster under the empty name."""
    found: dict[str, list[Body]] = {}
    for role in [*of_kind(documents, "Role"), *of_kind(documents, "ClusterRole")]:
        found.setdefault(role["metadata"].get("namespace", ""), []).extend(role["rules"])
    return found


@pytest.mark.parametrize("values", SETS, ids=lambda path: path.stem)
def test_lint(helm: Helm, values: Path) -> None:
    text = helm.run("lint", "--strict", CHART, "-f", values).well()
    assert "[WARNING]" not in text
    assert "[ERROR]" not in text


@pytest.mark.parametrize("values", SETS, ids=lambda path: path.stem)
def test_the_server_knows_every_field(helm: Helm, binaries: Path, schemas: Path, tmp_path: Path, values: Path) -> None:
    documents = helm.template("-f", values)
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all(documents))
    text = judge(binaries, schemas, manifest).well()
    assert f"Valid: {len(documents)}" in text, text


def test_the_schemas_refuse_what_the_server_would(binaries: Path, schemas: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "wrong.yaml"
    for wrong in ({"replicaz": 1}, {"maxUnavailable": [1]}):
        manifest.write_text(
            yaml.safe_dump(
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": wrong}
            )
        )
        assert judge(binaries, schemas, manifest).code == 1


@pytest.mark.parametrize("values", SETS, ids=lambda path: path.stem)
def test_pods_are_restricted_and_everything_has_its_place(helm: Helm, values: Path) -> None:
    documents = helm.template("-f", values)
    pods = [pod_of(documents), *(pod["spec"] for pod in of_kind(documents, "Pod"))]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            held = container["securityContext"]
            assert held["allowPrivilegeEscalation"] is False
            assert held["readOnlyRootFilesystem"] is True
            assert held["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
    selector = only(documents, "Deployment")["spec"]["selector"]["matchLabels"]
    labels = only(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    for document in documents:
        clusterwide = document["kind"].startswith("Cluster") or document["kind"] == "CustomResourceDefinition"
        assert ("namespace" in document["metadata"]) is not clusterwide, document
        assert len(document["metadata"]["name"]) <= 253
        # The test's pod must not be taken for a replica.
        if document["kind"] == "Pod":
            assert not selector.items() <= document["metadata"]["labels"].items()
    secrets = [rule for rules in granted(documents).values() for rule in rules if "secrets" in rule["resources"]]
    assert secrets == []
    stars = [rule for rules in granted(documents).values() for rule in rules if "*" in str(rule)]
    assert stars == []


def test_two_replicas_are_replaced_without_a_gap(helm: Helm) -> None:
    documents = helm.template("-f", CODE)
    deployment = only(documents, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
    }
    container = pod_of(documents)["containers"][0]
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert {spread["topologyKey"] for spread in pod_of(documents)["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    assert only(documents, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert arguments(documents) == [
        *("run", "--namespace=space", "--http=:8080", "--log-format=json", "--leader-elect"),
        *("--lease-name=demo-ctl-operator", "--lease-namespace=space", "--standalone", "/app/operator.py"),
    ]


@pytest.mark.parametrize(
    ("value", "told"), [("auto", []), ("true", ["--debug-pages"]), ("false", ["--no-debug-pages"])]
)
def test_who_may_see_the_debug_pages(helm: Helm, value: str, told: list[str]) -> None:
    found = arguments(helm.template("-f", CODE, "--set", f"http.debugPages={value}"))
    assert [one for one in found if "debug-pages" in one] == told


def test_a_single_replica_is_recreated(helm: Helm) -> None:
    documents = helm.template("-f", VALUES / "single.yaml")
    deployment = only(documents, "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert "--no-leader-elect" in arguments(documents)
    assert granted(documents) == {}
    assert pod_of(documents)["serviceAccountName"] == "made-elsewhere"
    assert of_kind(documents, "ServiceAccount") == []


ELECTION = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["demo-ctl-operator"],
        "verbs": ["get", "update", "watch"],
    },
]
EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
DEFINITIONS = {
    "apiGroups": ["apiextensions.k8s.io"],
    "resources": ["customresourcedefinitions"],
    "verbs": ["list", "watch"],
}
NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]}


def peering(plural: str) -> Body:
    return {"apiGroups": ["kopf.dev"], "resources": [plural], "verbs": ["list", "watch", "patch"]}


def test_the_rights_are_those_that_the_values_ask_for(helm: Helm) -> None:
    def of(name: str) -> dict[str, list[Body]]:
        return granted(helm.template("-f", VALUES / f"{name}.yaml"))

    def rules(name: str, section: str = "rules") -> list[Body]:
        found: list[Body] = yaml.safe_load((VALUES / f"{name}.yaml").read_text())["rbac"][section]
        return found

    assert of("minimal") == {"space": [EVENTS, *ELECTION]}
    assert of("inline") == {"space": [*rules("inline"), EVENTS, *ELECTION]}
    shared = [ELECTION[0], {**ELECTION[1], "resourceNames": ["shared"]}]
    there = [*rules("namespaces"), EVENTS]
    assert of("namespaces") == {"": [DEFINITIONS], "team-a": there, "team-b": there, "space": shared}
    everywhere = [*rules("clusterwide"), EVENTS, *rules("clusterwide", "clusterRules"), DEFINITIONS]
    assert of("clusterwide") == {"": everywhere, "space": ELECTION}
    assert of("patterns") == {"": [*rules("patterns"), NAMESPACES], "space": ELECTION}
    assert of("peering") == {"": [EVENTS, peering("clusterkopfpeerings"), DEFINITIONS], "space": ELECTION}
    there = [EVENTS, peering("kopfpeerings")]
    assert of("peering-namespaced") == {"one": there, "two": there, "space": ELECTION}


def test_whoever_is_bound_is_the_account_of_the_pods(helm: Helm) -> None:
    for values in SETS:
        documents = helm.template("-f", values)
        account = {"kind": "ServiceAccount", "name": pod_of(documents)["serviceAccountName"], "namespace": "space"}
        for binding in [*of_kind(documents, "RoleBinding"), *of_kind(documents, "ClusterRoleBinding")]:
            assert binding["subjects"] == [account]
            kind = binding["kind"].removesuffix("Binding")
            names = [
                role["metadata"]["name"]
                for role in of_kind(documents, kind)
                if role["metadata"].get("namespace") == binding["metadata"].get("namespace")
            ]
            assert binding["roleRef"]["name"] in names


def test_what_is_served_is_said_to_the_operator(helm: Helm) -> None:
    def of(name: str) -> list[str]:
        told = arguments(helm.template("-f", VALUES / f"{name}.yaml"))
        return [one for one in told if one.startswith(("--namespace", "--all"))]

    assert of("namespaces") == ["--namespace=team-a", "--namespace=team-b"]
    assert of("clusterwide") == ["--all-namespaces"]
    assert of("patterns") == ["--namespace=team-*,!team-test"]


def test_inline_code_arrives_as_it_is_and_other_code_makes_other_pods(helm: Helm) -> None:
    values = VALUES / "inline.yaml"
    documents = helm.template("-f", values)
    told = yaml.safe_load(values.read_text())["operator"]["inline"]
    assert only(documents, "ConfigMap")["data"] == told
    assert arguments(documents)[-2:] == ["/operator/first.py", "/operator/second.py"]
    (mount,) = (one for one in pod_of(documents)["containers"][0]["volumeMounts"] if one["name"] == "code")
    assert (mount["mountPath"], mount["readOnly"]) == ("/operator", True)
    changed = helm.template("-f", values, "--set", "operator.inline.second\\.py=import ctl")

    def mark(found: list[Body]) -> str:
        text: str = only(found, "Deployment")["spec"]["template"]["metadata"]["annotations"]["ctl.dev/code"]
        return text

    assert mark(documents) != mark(changed)


def test_the_definitions_of_peerings_are_those_of_the_examples(helm: Helm) -> None:
    documents = of_kind(helm.template("-f", VALUES / "peering.yaml"), "CustomResourceDefinition")
    assert {one["metadata"]["name"]: one["spec"] for one in documents} == {
        one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(PEERING.read_text())
    }
    assert all(one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for one in documents)
    made = of_kind(helm.template("-f", VALUES / "peering-namespaced.yaml"), "KopfPeering")
    assert [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in made] == [
        ("one", "mine"),
        ("two", "mine"),
    ]


def test_the_test_reaches_the_port_though_others_may_not(helm: Helm) -> None:
    documents = helm.template("-f", VALUES / "servicemonitor.yaml")
    (rule,) = only(documents, "NetworkPolicy")["spec"]["ingress"]
    monitoring, test = rule["from"]
    assert monitoring == yaml.safe_load((VALUES / "servicemonitor.yaml").read_text())["networkPolicy"]["from"][0]
    assert test["podSelector"]["matchLabels"] == only(documents, "Pod")["metadata"]["labels"]


def test_further_knobs_of_the_pods(helm: Helm) -> None:
    documents = helm.template("-f", VALUES / "hardened.yaml")
    pod = pod_of(documents)
    assert pod["containers"][0]["image"].startswith("internal.test:5000/team/operator@sha256:0123")
    assert "runAsUser" not in pod["securityContext"]
    assert pod["terminationGracePeriodSeconds"] == 90
    assert {volume["name"] for volume in pod["volumes"]} == {"tmp", "ca"}
    policy = only(documents, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 6443, 5432]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("rbac.create=true", "Nothing to run: set operator.files"),
        ("leaderElection.enabled=false", "replicaCount is 2 without leaderElection.enabled"),
        ("watch.clusterWide=true,watch.namespaces={a}", "leave watch.namespaces and watch.patterns out"),
        ("serviceMonitor.enabled=true,podMonitor.enabled=true", "choose one"),
        ("serviceMonitor.enabled=true,service.enabled=false", "needs service.enabled"),
        ("peering.create=true", "peering.create needs peering.name"),
        ("peering.create=true,peering.name=x,peering.installCRDs=true", "leave peering.installCRDs out"),
        ("watch.namespaces={team-*}", "watch"),
        ("replicas=3", "replicas"),
        ("operator.logFormat=xml", "logFormat"),
        ("image.tag=a b", "tag"),
        ("rbac.rules[0].verbs={get}", "rules"),
    ],
)
def test_wrong_values_are_refused_with_what_is_wrong(helm: Helm, given: str, said: str) -> None:
    files = [] if said.startswith("Nothing") else ["-f", str(CODE)]
    ran = helm.run("template", "demo", CHART, *files, "--set", given)
    assert ran.code != 0
    assert said in ran.text


def test_every_value_has_a_default_and_a_schema(helm: Helm) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - values.keys() == {"global", "enabled"}
    assert values.keys() <= schema["properties"].keys()
    for name, inner in schema["properties"].items():
        if isinstance(values.get(name), dict) and "properties" in inner and "Probe" not in name:
            assert inner["properties"].keys() == values[name].keys(), name


def test_the_notes_say_the_next_step(helm: Helm) -> None:
    def notes(*given: str | Path) -> str:
        ran = helm.run("install", "demo", CHART, "-n", "space", "--dry-run=client", *given).well()
        return ran.partition("NOTES:")[2]

    text = notes("-f", VALUES / "minimal.yaml")
    assert "kubectl -n space rollout status deployment/demo-ctl-operator" in text
    assert "get lease demo-ctl-operator" in text
    assert "NO RIGHTS" in text
    assert "rollout restart" in text
    text = notes("-f", VALUES / "clusterwide.yaml")
    assert "serves all namespaces" in text
    assert "NO RIGHTS" not in text
    assert "rollout restart" not in text


def test_the_rights_are_those_that_ctl_rbac_prints(helm: Helm, tmp_path: Path) -> None:
    definition = str(EXAMPLE)
    command = ctl_command(
        "rbac", "-n", "space", "--offline", "--manifest", definition, str(EXAMPLE.with_name("example.py"))
    )
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    (role,) = (one for one in yaml.safe_load_all(printed) if one["kind"] == "Role")
    own = {"leases", "events"}
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump({"rbac": {"rules": [one for one in role["rules"] if not own & {*one["resources"]}]}})
    )
    documents = helm.template("-f", CODE, "-f", values)
    ours = {right for one in of_kind(documents, "Role") for right in granted_by([one])}
    assert ours - set(granted_by([role])) <= {("create", "events", "space"), ("patch", "events", "space")}
    assert set(granted_by([role])) <= ours
