"""Scenarios of what surrounds handlers: resources, namespaces, owners, storages, threads, programs that embed an operator."""

import asyncio
import json
from typing import Any

from parity.definitions import address
from parity.runs import Scenario
from parity.world import World

PREFIX = "kopf.zalando.org"


async def options(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.patch("one", {"spec": {"field": "b"}})
    await world.called("part.register", None)
    await world.handled("one", field="b")


async def hierarchies(world: World) -> None:
    await world.create("one", {"field": "a"}, labels={"l": "1"})
    await world.called("references", None)
    await world.handled("one", field="a")


async def selectors(world: World) -> None:
    await world.create("one", plural="configmaps")
    await world.called("core kind")
    for name, handler, plural in (("three", "category=", "pears"), ("four", "callable v1", "apples")):
        await world.create(name, plural=plural)
        await world.called(handler, name)
    await world.called("callable v1beta1", "three")
    await world.called("callable v1", "three")
    await world.create("five", plural="configmaps", labels={"e": "yes"})
    await world.called("everything", "five")


async def core(world: World) -> None:
    await world.create("one", data={"a": "1"}, plural="configmaps", labels={"ours": "yes"})
    await world.called("config")
    await world.until("one", lambda body: body is not None and "added" in body["data"], plural="configmaps")
    await world.called("config", count=2)
    await world.create("four", data={"a": "1"}, plural="configmaps", labels={"fields": "yes"})
    await world.called("config_field", "four")
    await world.until("four", lambda body: "last-handled" in json.dumps(body), plural="configmaps")
    await world.patch("four", {"data": {"a": "2"}}, plural="configmaps")
    await world.called("config_field", "four", 2)
    await world.until("four", lambda body: r"\"a\":\"2\"" in json.dumps(body), plural="configmaps")
    await world.create("two", stringData={"a": "x"}, plural="secrets", labels={"ours": "yes"})
    await world.until("two", lambda body: body is not None and body["metadata"].get("finalizers"), plural="secrets")
    await world.delete("two", plural="secrets")
    await world.gone("two", plural="secrets")
    await world.create("three", {"containers": [{"name": "main", "image": "none"}]}, plural="pods")
    await world.until(
        "three", lambda body: body is not None and "seen" in body["metadata"].get("annotations", {}), plural="pods"
    )


async def secrets(world: World) -> None:
    def is_at_rest(body: Any) -> bool:
        """Each change adds or removes a key: the keys that are known are those that are there, and no record is left."""
        kept = {
            name.rpartition("/")[2]: text for name, text in ((body or {})["metadata"].get("annotations") or {}).items()
        }
        last = json.loads(kept.pop("last-handled-configuration", "{}"))
        return not kept and last.get("data", {}).keys() == body["data"].keys()

    await world.create("one", stringData={"a": "one", "b": "same"}, plural="secrets", labels={"ours": "yes"})
    await world.called("field")
    await world.until("one", is_at_rest, plural="secrets")
    await world.patch("one", {"data": {"a": "dHdv", "c": "Yw=="}}, plural="secrets")
    await world.called("callback")
    await world.until("one", is_at_rest, plural="secrets")
    await world.patch("one", {"data": {"b": None, "d": "dGhyZWU="}}, plural="secrets")
    await world.called("child", count=2)
    await world.until("one", is_at_rest, plural="secrets")


async def cluster(world: World) -> None:
    name = f"{world.namespace}-one"
    await world.create(name, {"field": "a"}, plural="orchards")
    await world.called("namespace", world.namespace)
    await world.handled(name, field="a", plural="orchards")
    await world.patch(name, {"spec": {"field": "b"}}, plural="orchards")
    await world.handled(name, field="b", plural="orchards")
    await world.delete(name, plural="orchards")
    await world.gone(name, plural="orchards")
    await world.create(f"{world.namespace}-two", {"field": "a"}, plural="orchards")
    await world.handled(f"{world.namespace}-two", field="a", plural="orchards")
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")


async def finalizers(world: World) -> None:
    await world.create("one", {"field": "a"}, labels={"kept": "yes"}, finalizers=["other.example.com/theirs"])
    await world.handled("one", field="a")
    await world.create("two", {"field": "a"}, finalizers=["other.example.com/theirs", "parity.ctl.test/kept"])
    await world.handled("two", field="a")
    await world.delete("one")
    await world.called("deleted")
    await world.until("one", lambda body: body and body["metadata"]["finalizers"] == ["other.example.com/theirs"])
    await world.patch("one", {"metadata": {"finalizers": None}})
    await world.called("event")
    await world.create("three", {"field": "a"})
    await world.handled("three", field="a")
    await world.delete("three")
    await world.called("event", "three")
    # Deleted already when it is first seen.
    await world.create("four", {"field": "a"}, labels={"kept": "yes"}, finalizers=["other.example.com/theirs"])
    await world.handled("four", field="a")
    await world.stop()
    await world.delete("four")
    await world.start()
    await world.called("deleted", "four")
    await world.until("four", lambda body: body and body["metadata"]["finalizers"] == ["other.example.com/theirs"])


async def superseding(world: World) -> None:
    await world.create("deleted", {"stuck": True})
    await world.called("stuck", "deleted")
    await world.until("deleted", lambda body: "delayed" in json.dumps(body))
    await world.delete("deleted")
    await world.gone("deleted")
    await world.create("freed", {"stuck": True})
    await world.called("stuck", "freed")
    await world.until("freed", lambda body: "delayed" in json.dumps(body))
    await world.spec("freed", stuck=None, field="a")
    await world.handled("freed", field="a")
    await world.create("again", {"field": "a"})
    await world.handled("again", field="a")
    await world.spec("again", stuck=True)
    await world.called("stuck", "again")
    await world.until("again", lambda body: "delayed" in json.dumps(body))
    await world.delete("again")
    await world.gone("again")


async def quick(world: World) -> None:
    await world.create("slow", {"field": "a"}, labels={"slow": "yes"})
    await world.called("slow", "slow")
    await world.spec("slow", field="b")
    await world.spec("slow", field="c")
    await world.called("updated", "slow", spec={"field": "c"})
    await world.handled("slow", field="c")


async def _recorded(world: World, name: str, text: str) -> None:
    await world.until(name, lambda body: text in json.dumps(body))


async def prefix(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.called("long")
    await _recorded(world, "one", "delayed")


def _is_delayed(body: Any) -> bool:
    """Whether the status, once there is one, has the record of a handler that waits."""
    kept = ((body or {}).get("status") or {}).get("orchard") or {}
    return any(record.get("delayed") for record in (kept.get("progress") or {}).values())


async def status_storage(world: World) -> None:
    await world.create("one", {"field": "a"})
    await _recorded(world, "one", "last-handled-configuration")
    await world.spec("one", field="b")
    await world.called("changed", count=2)
    await world.create("two", {"field": "a", "sticky": True})
    await world.called("sticky", "two")
    await world.until("two", _is_delayed)
    await world.until("one", lambda body: r"\"field\":\"b\"" in json.dumps(body))


async def several_storages(world: World) -> None:
    await world.create("one", {"field": "a", "ignored": 1})
    await _recorded(world, "one", "last-handled-configuration")
    await world.spec("one", ignored=2)
    await world.spec("one", field="b")
    await world.called("changed", count=2)
    await world.until("one", lambda body: '\\"b\\"' in json.dumps(body))
    await world.create("two", {"field": "a", "sticky": True})
    await world.called("sticky", "two")
    await _recorded(world, "two", "delayed")


def _record(**parts: Any) -> Any:
    return {"started": "2021-01-01T00:00:00.000000+00:00", "purpose": "create", "retries": 0, **parts}


async def half_handled(world: World) -> None:
    done = _record(stopped="2021-01-01T00:00:01.000000+00:00", retries=1, success=True, failure=False)
    tried = _record(retries=2, success=False, failure=False, message="x", delayed="2021-01-01T00:00:01.000000+00:00")
    annotations = {f"{PREFIX}/first": json.dumps(done), f"{PREFIX}/second": json.dumps(tried)}
    await world.create("annotated", {"field": "a"}, annotations=annotations)
    await world.create("in-status", {"field": "a"})
    status = {"kopf": {"progress": {"first": done, "second": {**tried, "stopped": None}}}}
    await world.patch("in-status", {"status": status}, subresource="status")
    base = {f"{PREFIX}/last-handled-configuration": '{"spec":{"field":"old"}}'}
    await world.create("changed", {"field": "a"}, annotations=base)
    purposeless = {f"{PREFIX}/second": json.dumps({"started": "2021-01-01T00:00:00.000000+00:00", "retries": 7})}
    await world.create("old", {"field": "a"}, annotations=purposeless)
    await world.start()
    for name in ("annotated", "in-status", "changed", "old"):
        await world.handled(name, field="a")


async def threads(world: World) -> None:
    for number in range(5):
        await world.create(f"n{number}", labels={"counted": "yes"})
    for number in range(5):
        await world.called("counted", f"n{number}")
    await world.create("one", labels={"asked": "yes"})
    await world.called("asked")


async def embedded_run(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.called("created")
    await world.handled("one", field="a")
    await world.create("last", {"field": "a"})
    await world.ended()


async def embedded_operator(world: World) -> None:
    await world.called("ready", None)
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    await world.create("one", {"field": "a"}, plural="pears")
    await world.handled("one", field="a", plural="pears")
    await world.delete("one")
    await world.gone("one")
    world.recording.with_suffix(".stop").touch()
    await world.ended()


async def embedded_tasks(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.handled("one", field="a")
    world.recording.with_suffix(".stop").touch()
    await world.ended()


def _is_at_rest(body: Any, **cluster: Any) -> bool:
    """Whether what was seen last, under the operator's own prefix, has this, and no record of a handler is left."""
    kept = {} if body is None else body["metadata"].get("annotations") or {}
    records = [name for name, text in kept.items() if '"retries":' in text]
    last = json.loads(kept.get("parity.example.com/last", "{}"))
    return not records and "spec" in last and last["spec"]["cluster"] | cluster == last["spec"]["cluster"]


async def crate_like(world: World) -> None:
    def data(*replicas: int) -> dict[str, Any]:
        return {"data": [{"name": f"n{number}", "replicas": count} for number, count in enumerate(replicas)]}

    await world.create("one", {"cluster": {"version": "1", "allowed": ["a"]}, "nodes": data(1, 2)})
    await world.until("one", lambda body: _is_at_rest(body, version="1"))
    # Two things in one change: they go one after the other.
    await world.spec("one", cluster={"version": "2", "allowed": ["a", "b"]}, nodes=data(3, 2))
    await world.until("one", lambda body: _is_at_rest(body, version="2"))
    await world.stop()
    await world.spec("one", cluster={"version": "3"})
    await world.start()
    await world.until("one", lambda body: '"pending": [' in json.dumps(body) and "are left" in json.dumps(body))
    # In the middle of it: what is done is done, and the rest follows.
    await world.stop()
    await world.start()
    await world.until("one", lambda body: _is_at_rest(body, version="3"))
    # A step fails: those after it do not run, but for the last one.
    await world.spec("one", cluster={"version": "broken"}, nodes=data(4, 2))
    await world.until("one", lambda body: _is_at_rest(body, version="broken"))
    await world.spec("one", cluster={"size": "x"}, nodes=data(9, 2))
    await world.until("one", lambda body: _is_at_rest(body, size="x"))
    await world.create("user", stringData={"password": "one"}, plural="secrets", labels={"password": "true"})
    await world.until("user", lambda body: "/last" in json.dumps(body), plural="secrets")
    await world.patch("user", {"data": {"password": "dHdv"}}, plural="secrets")
    await world.called("password", "user")
    service = {"ports": [{"port": 80}], "type": "LoadBalancer"}
    await world.create("outside", service, plural="services", labels={"part": "of"})
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    await world.patch("outside", ingress, plural="services", subresource="status")
    await world.called("address", "outside")
    await world.patch("one", {"metadata": {"annotations": {"pinged": "yes"}}})
    await world.called("ping")
    await world.until("one", lambda body: '"health": {' in json.dumps(body))


async def clustersecret_like(world: World) -> None:
    name = f"{world.namespace}-one"
    names = {part: f"{world.namespace}-{part}" for part in ("a", "b", "c")}

    async def create(part: str) -> None:
        await world.api.create(address("namespaces", ""), world.body(names[part], plural="namespaces"))

    async def copied(data: dict[str, str], *parts: str) -> None:
        """Wait until there are exactly these copies, and the status says so."""
        synced = [names[part] for part in parts]
        await world.until(
            name,
            lambda body: body is None or body.get("status", {}).get("create_fn", {}).get("syncedns") == synced,
            plural="orchards",
        )
        for part, namespace in names.items():
            wanted = data if part in parts else None
            path = address("secrets", namespace, name)
            for _ in range(600):
                answer = await world.api.call("GET", path)
                if (answer.body["data"] if answer.code == 200 else None) == wanted:
                    break
                await asyncio.sleep(0.05)
            else:
                raise AssertionError(f"{world.place.engine}: {path} is {answer.body}\n{world.output()[-4000:]}")

    try:
        await world.called("remembered", None)
        await create("a")
        await create("b")
        patterns = {"matchNamespace": ["-a"], "data": {"k": "b25l"}}
        body = {**world.body(name, plural="orchards"), **patterns}
        await world.api.create(address("orchards", ""), body)
        await world.handled(name, plural="orchards")
        await copied({"k": "b25l"}, "a")
        # Both at once: what the second handler looks for is what the first one has left.
        await world.patch(name, {"matchNamespace": ["-b", "-c"], "data": {"k": "dHdv"}}, plural="orchards")
        await copied({"k": "dHdv"}, "b")
        await create("c")
        await copied({"k": "dHdv"}, "b", "c")
        await world.until(name, lambda body: '"retries' not in json.dumps(body), plural="orchards")
        await world.stop()
        await world.patch(name, {"matchNamespace": ["-a", "-c"], "data": {"k": "Mw=="}}, plural="orchards")
        await world.start("--all-namespaces")
        await copied({"k": "Mw=="}, "a", "c")
        await world.until(name, lambda body: '"retries' not in json.dumps(body), plural="orchards")
        await world.delete(name, plural="orchards")
        await world.gone(name, plural="orchards")
        await copied({})
    finally:
        for namespace in names.values():
            await world.api.call("DELETE", f"{address('namespaces', '')}/{namespace}")


async def mysql_like(world: World) -> None:
    await world.called("on_startup", None)
    spec: dict[str, Any] = {
        "members": ["a"],
        "router": {"options": {"x": 1}},
        "schedules": ["daily"],
        "service": 1,
        "inner": 1,
    }
    await world.create("one", spec)
    await world.called("on_schedules")
    await world.handled("one", **spec)
    await world.spec("one", router={"options": {"x": 2}}, schedules=["weekly"], service=2, inner=2)
    await world.called("on_options", count=2)
    await world.handled("one", schedules=["weekly"])
    await world.create("invalid", {"members": []})
    await world.until("invalid", lambda body: '"cluster": "INVALID"' in json.dumps(body))
    await world.spec("invalid", members=["b"])
    await world.until("invalid", lambda body: '"created": true' in json.dumps(body))
    await world.handled("invalid", members=["b"])
    await world.delete("one")
    await world.gone("one")
    await world.create("tls", data={"a": "b25l"}, plural="secrets")
    await world.called("on_secret", "tls")
    await world.until("tls", lambda body: "/last-handled" in json.dumps(body), plural="secrets")
    await world.patch("tls", {"data": {"a": "dHdv"}}, plural="secrets")
    await world.called("on_secret", "tls", 2)
    pod = {"containers": [{"name": "main", "image": "none"}]}
    await world.create("server-0", pod, plural="pods", labels={"component": "server"})
    await world.until("server-0", lambda body: "delayed" in json.dumps(body), plural="pods")
    await world.patch("server-0", {"metadata": {"annotations": {"configured": "yes"}}}, plural="pods")
    await world.called("on_pod_create", "server-0")
    await world.until("server-0", lambda body: "/last-handled" in json.dumps(body), plural="pods")
    await world.delete("server-0", plural="pods")
    await world.gone("server-0", plural="pods")
    await world.called("on_pod_event", "server-0")


async def namespaces(world: World) -> None:
    names = [f"{world.namespace}-{part}" for part in ("a1", "a2", "b", "later-a")]
    try:
        for name in names[:3]:
            await world.api.create(address("namespaces", ""), world.body(name, plural="namespaces"))
        own = world.namespace
        await world.start("-n", f"{own}-*,!{own}-*2")
        for name in (own, *names[:3]):
            await world.api.create(address("apples", name), world.body(f"in-{name}", {"field": "a"}))
        await world.called("created", f"in-{names[0]}")
        await world.called("created", f"in-{names[2]}")
        await world.api.create(address("namespaces", ""), world.body(names[3], plural="namespaces"))
        await world.api.create(address("apples", names[3]), world.body(f"in-{names[3]}", {"field": "a"}))
        await world.called("created", f"in-{names[3]}")
        await world.stop()
    finally:
        for name in names:
            await world.api.call("DELETE", f"{address('namespaces', '')}/{name}")


async def library(world: World) -> None:
    await world.create("one", {"field": "a"})
    await world.called("kept")
    await world.handled("one", field="a")


async def met(world: World) -> None:
    await world.create("one")
    await world.called("event")


async def values(world: World) -> None:
    await world.create("one", {"field": {"a": [1]}}, annotations={"n": "x"})
    await world.handled("one", field={"a": [1]})
    await world.spec("one", field={"a": [2], "b": 1})
    await world.handled("one", field={"a": [2], "b": 1})


SCENARIOS = [
    Scenario(name="signatures", play=met, ordered=False),
    Scenario(name="declarations", play=met),
    Scenario(name="options", play=options, ordered=False),
    Scenario(name="values", play=values),
    Scenario(name="hierarchies", play=hierarchies),
    Scenario(name="selectors", play=selectors, ordered=False, real=True),
    Scenario(name="core", play=core, kept=("configmaps", "pods"), real=True),
    Scenario(name="secrets", play=secrets, kept=()),
    Scenario(
        name="cluster",
        play=cluster,
        start=("--all-namespaces",),
        kept=("orchards", "apples"),
        exclusive=True,
        real=True,
    ),
    Scenario(name="finalizers", play=finalizers),
    Scenario(name="superseding", play=superseding),
    Scenario(name="quick", operator="superseding", play=quick),
    Scenario(name="prefix", play=prefix),
    Scenario(name="status_storage", play=status_storage),
    Scenario(name="several_storages", play=several_storages),
    Scenario(name="half_handled", play=half_handled, start=None),
    Scenario(name="threads", play=threads),
    Scenario(name="embedded_run", play=embedded_run, embedded=True),
    Scenario(name="embedded_operator", play=embedded_operator, embedded=True, kept=("apples", "pears")),
    Scenario(name="embedded_tasks", play=embedded_tasks, embedded=True),
    Scenario(name="namespaces", play=namespaces, start=None),
    Scenario(name="crate_like", play=crate_like),
    Scenario(name="mysql_like", play=mysql_like, embedded=True, kept=("apples", "configmaps", "pods")),
    Scenario(
        name="clustersecret_like",
        play=clustersecret_like,
        start=("--all-namespaces",),
        kept=("orchards", "namespaces"),
        exclusive=True,
    ),
    Scenario(name="library", play=library),
]
