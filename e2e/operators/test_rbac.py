"""The rights that `ctl rbac` prints are enough for each example, and none of them is too much: the server's audit log is asked."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from conformance.api import Api, Body
from conformance.spaces import provide
from operators.auditing import Audited, account_token, alarms, grant, granted
from operators.cluster import Examples
from operators.processes import Operator, ctl_command, running
from targets import as_user

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KOPF = "kopfexamples.kopf.dev"
ALWAYS = {
    "list": "this server streams lists as watches; older ones, and this one under load, are asked to list",
}
"""Verbs that may stay unused, with the reason."""
UNMET = {
    (
        "patch",
        "kopfpeerings.kopf.dev",
    ): "peers meet where there is an object for them; the definition alone is installed"
}
NO_RESULT = {("patch", f"{KOPF}/status"): "its handlers may return results at any time, and do not today"}
FAILING = {"03-exceptions", "07-subhandlers", "09-testing", "14-daemons", "15-timers"}
"""Examples whose handlers fail on purpose, which the log shows."""
PROGRAMS = {"12-embedded", "20-informers"}
"""Examples that are no files for `ctl run`."""
CLUSTER_SECONDS = 60.0


@dataclass(frozen=True)
class Scene:
    """An operator that runs, and what a user has to do with it."""

    api: Api
    space: str
    examples: Examples
    operator: Operator
    unused: Callable[[], set[tuple[str, str]]]
    """What it may do, has not done, and is expected to do."""

    async def until_all_is_used(self) -> None:
        """Timers and daemons use some of their rights later than any log line tells."""
        deadline = asyncio.get_running_loop().time() + CLUSTER_SECONDS
        while unused := self.unused():
            assert asyncio.get_running_loop().time() < deadline, f"not used: {unused}\n{self.operator.text()}"
            await asyncio.sleep(0.5)


async def life(scene: Scene) -> None:
    """One object from its creation to its end."""
    await scene.examples.create("one", {"field": "value", "items": ["a"], "replicas": 1}, labels={"watched": "yes"})
    scene.operator.wait_for(f"[{scene.space}/one]")
    await asyncio.sleep(2)
    await scene.examples.patch("one", {"spec": {"field": "changed", "replicas": 3}})
    await scene.until_all_is_used()
    await gone(scene)


async def gone(scene: Scene) -> None:
    """The object is deleted, and the operator lets it go."""
    await scene.examples.delete("one")
    await scene.examples.until("one", lambda found: found is None)


async def children(scene: Scene) -> None:
    # Once this one was told of, the next one is an event and no part of a list.
    await scene.examples.create_config("canary", {}, labels={"from-example": "yes"})
    scene.operator.wait_for("of canary")
    await scene.examples.create("one", {"items": ["a"]}, labels={"from-example": "yes"})
    scene.operator.wait_for("child event ADDED of")
    await scene.examples.handled("one")
    await scene.examples.patch("one", {"metadata": {"labels": {"more": "x"}}})
    scene.operator.wait_for("relabelled 1 children")
    await gone(scene)


async def builtins(scene: Scene) -> None:
    await scene.examples.create_config("colours", {"red": "1"}, labels={"example": "builtins"})
    scene.operator.wait_for("1 entries")
    scene.operator.wait_for(f"namespace event None of {scene.space}")


async def embedded(scene: Scene) -> None:
    scene.operator.wait_for("the operator is ready")
    await scene.examples.create("one")
    scene.operator.wait_for("one was created")
    await scene.examples.handled("one")
    await gone(scene)


async def entries(scene: Scene) -> None:
    """A program without handlers, which looks at all namespaces."""
    await scene.examples.create_config("colours", {"red": "1"})
    deadline = asyncio.get_running_loop().time() + CLUSTER_SECONDS
    while not any(one["metadata"].get("annotations") for one in await scene.examples.configs()):
        assert asyncio.get_running_loop().time() < deadline, scene.operator.text()
        await asyncio.sleep(0.1)


async def replicas(scene: Scene) -> None:
    path = f"/apis/example.com/v1/namespaces/{scene.space}/configsets"
    meta = {"name": "one", "namespace": scene.space}
    body = {"apiVersion": "example.com/v1", "kind": "ConfigSet", "metadata": meta, "spec": {"replicas": 2}}
    await scene.api.create(path, {**body, "spec": {"replicas": 2, "data": {"red": "1"}}})
    scene.operator.wait_for("one: 2 replicas")
    await scene.api.merge(f"{path}/one", {"spec": {"replicas": 1, "data": {"red": "2"}}})
    scene.operator.wait_for("one: 1 replicas")
    # Until the Events about it are counted, which is a patch, the operator lives on.
    await scene.api.merge(f"{path}/one", {"spec": {"replicas": 3}})
    scene.operator.wait_for("one: 3 replicas")


@dataclass(frozen=True)
class Case:
    """An example, how it is run and used, and which of its rights stay unused, with the reason."""

    example: str
    use: Callable[[Scene], Awaitable[None]] = life
    options: tuple[str, ...] = ("--no-leader-elect",)
    run: tuple[str, ...] = ()
    """Options of `ctl run`."""
    unused: dict[tuple[str, str], str] = field(default_factory=dict)
    is_met: bool = False
    """Whether there is a peering object, or no peering at all."""

    def __str__(self) -> str:
        return " ".join((self.example, *self.run))


CASES = [
    Case("01-minimal"),
    Case("01-minimal", options=(), run=("--leader-elect",)),
    Case(
        "02-children",
        children,
        options=("--no-leader-elect", "--also", "configmaps=create,patch"),
    ),
    Case("03-exceptions"),
    Case("04-login", unused=NO_RESULT),
    Case("05-handlers"),
    Case("06-peering", unused=NO_RESULT, is_met=True),
    Case("07-subhandlers"),
    Case("08-events", unused={("patch", KOPF): "patches of event handlers may touch more than the status"}),
    Case("09-testing"),
    Case("10-builtins", builtins),
    Case("11-filters", unused=NO_RESULT),
    Case(
        "12-embedded",
        embedded,
        # Which it says to `ctl.operator`, and not to `ctl run`.
        options=("--no-leader-elect", "--standalone"),
        unused=NO_RESULT,
        is_met=True,
    ),
    Case("13-posting", unused=NO_RESULT),
    Case("14-daemons"),
    Case("15-timers"),
    Case("16-indices", unused=NO_RESULT),
    Case("20-informers", entries, options=("--also", "configmaps=list,watch,patch"), is_met=True),
    Case(
        "21-replica-set",
        replicas,
        options=(
            "--no-leader-elect",
            *("--also", "configsets.example.com/status=patch"),
            *("--also", "configmaps=create,patch,delete"),
        ),
    ),
]


def test_every_example_is_a_case() -> None:
    assert {case.example for case in CASES} == {path.parent.name for path in EXAMPLES.glob("*/example.py")}


@pytest.fixture
async def definitions(admin: Api) -> None:
    """The kinds of all examples."""
    for path in ("peering.yaml", "21-replica-set/crd.yaml"):
        for body in yaml.safe_load_all((EXAMPLES / path).read_text()):
            await provide(admin, body)


def called(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`ctl rbac` with these arguments, as the user of a kubeconfig."""
    return subprocess.run(
        ctl_command("rbac", *arguments),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=CLUSTER_SECONDS,
        check=False,
    )


def left(documents: list[Body], audited: Audited, user: str) -> set[tuple[str, str]]:
    """The rights that a user was granted, and has neither used nor may leave unused always."""
    used = {(verb, resource) for verb, resource, _ in audited.used_by(user)}
    return {(verb, resource) for verb, resource, _ in granted(documents) if verb not in ALWAYS} - used


def printed(audited: Audited, *arguments: str) -> list[Body]:
    """What `ctl rbac` prints for these arguments, asking the server as its administrator."""
    done = called(audited.target.kubeconfig, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [body for body in yaml.safe_load_all(done.stdout) if body]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("definitions")
async def test_what_is_printed_is_enough_and_not_too_much(
    audited: Audited, admin: Api, tmp_path: Path, case: Case
) -> None:
    space = f"rbac-{CASES.index(case)}"
    file = str(EXAMPLES / case.example / "example.py")
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    token = await account_token(admin, space, "operator")
    account = ("--service-account", "operator", "--service-account-namespace", space, "--name", space)
    place = ("-A",) if case.example == "20-informers" else ("-n", space)
    documents = printed(audited, *place, *account, *case.options, file)
    await grant(admin, documents)
    if case.example == "06-peering":
        peering = yaml.safe_load((EXAMPLES / case.example / "peering.yaml").read_text())
        peering["metadata"]["namespace"] = space
        await admin.create(f"/apis/kopf.dev/v1/namespaces/{space}/kopfpeerings", peering)

    narrow = as_user(audited.target, "operator", token, tmp_path / "kubeconfig")
    command = ctl_command("run", "-v", "-n", space, *case.run, file)
    if case.run:
        command[-1:] = ["--lease-namespace", space, file]
    if case.example in PROGRAMS:
        command = [sys.executable, file, space]
    user = f"system:serviceaccount:{space}:operator"
    expected = set(case.unused) | (set() if case.is_met else set(UNMET))

    with running(command, narrow, tmp_path / "log") as operator:
        scene = Scene(admin, space, Examples(admin, space), operator, lambda: left(documents, audited, user) - expected)
        await case.use(scene)
        await scene.until_all_is_used()
        # That one has no signal handlers of its own.
        assert operator.stop() == (-signal.SIGTERM if case.example == "20-informers" else 0)

    assert audited.refusals_of(user) == []
    if case.example not in FAILING:
        assert alarms(operator.text()) == []
    assert left(documents, audited, user) == expected


@pytest.mark.usefixtures("definitions")
async def test_an_operator_of_all_namespaces(audited: Audited, admin: Api, tmp_path: Path) -> None:
    space, file = "rbac-everywhere", str(EXAMPLES / "05-handlers" / "example.py")
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    token = await account_token(admin, space, "operator")
    account = ("--service-account", "operator", "--service-account-namespace", space, "--name", space)
    documents = printed(audited, "-A", *account, file)
    assert {(body["kind"], body["metadata"].get("namespace")) for body in documents} == {
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", space),
        ("RoleBinding", space),
    }
    narrow = as_user(audited.target, "operator", token, tmp_path / "kubeconfig")
    checked = called(narrow.kubeconfig, "-A", "--check", *account, file)
    assert checked.returncode == 1
    asked = {line.split()[2] for line in checked.stdout.splitlines()}
    assert asked == {resource for _, resource, _ in granted(documents)}

    await grant(admin, documents)
    command = ctl_command("run", "-v", "-A", "--leader-elect", "--lease-namespace", space, file)
    user = f"system:serviceaccount:{space}:operator"
    expected = {(verb, f"cluster{resource}") for verb, resource in UNMET}

    with running(command, narrow, tmp_path / "log") as operator:
        await life(
            Scene(admin, space, Examples(admin, space), operator, lambda: left(documents, audited, user) - expected)
        )
        assert operator.stop() == 0
    assert audited.refusals_of(user) == []
    assert alarms(operator.text()) == []
    assert left(documents, audited, user) == expected
