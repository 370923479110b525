"""The steps of an update, told from its diff: each waits for the results and records of those before it."""

import base64
import functools
import hashlib
import json

import kopf
from recording import record

PREFIX = "parity.example.com"
UPDATE = "cluster_update"


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = f"{PREFIX}/finalizer"
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, key="last", v1=False)
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 300
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1


def told(what):
    """Which run it is: the same for each of its calls. Kopf orders a diff differently in each process."""
    return hashlib.md5(str(what if isinstance(what, kopf.Spec) else sorted(what)).encode()).hexdigest()


class DependencyError(kopf.PermanentError):
    """One of the steps before has failed for good."""


class Step:
    """One step: what it returns says to which run it belongs, since results stay in the status."""

    def __init__(self, ref, context, depends_on=(), whatever=False):
        self.ref, self.context, self.depends_on, self.whatever = ref, context, depends_on, whatever

    def __call__(self, **kwargs):
        return functools.partial(self._run, **kwargs)

    async def _run(self, **kwargs):
        missing = [name for name in self.depends_on if not self._is_over(name, **kwargs)]
        if missing:
            raise kopf.TemporaryError(f"Waiting for {','.join(missing)}.", delay=0.5)
        result = await self.handle(**kwargs)
        return {"success": True, "ref": self.ref, "result": result}

    def _is_over(self, step, status, annotations, **_):
        if (status.get(step) or {}).get("ref") == self.ref:
            return True
        key = kopf.AnnotationsProgressStorage(v1=False, prefix=PREFIX).make_v2_key(step)
        known = json.loads(annotations.get(key, "{}"))
        if known.get("failure") and not known["success"]:
            if not self.whatever:
                raise DependencyError(f"A step before ({step}) has failed.")
            return True
        return False

    def notify(self, text):
        self.context.setdefault("notifications", []).append({"text": text})

    async def handle(self, **kwargs):
        raise NotImplementedError


class Before(Step):
    async def handle(self, spec, old, diff, name, **_):
        record("before", {"name": name}, ref=self.ref, diff=str(sorted(diff)), old=old["spec"], spec=dict(spec))
        self.notify("before")


class Upgrade(Step):
    async def handle(self, body, old, name, **_):
        versions = [old["spec"]["cluster"]["version"], body.spec["cluster"]["version"]]
        record("upgrade", {"name": name}, versions=versions)
        self.notify("upgraded")
        if versions[1] == "broken":
            raise kopf.PermanentError("no such version")
        return versions


class Restart(Step):
    """One pod at a time; which are left is in the status meanwhile."""

    async def handle(self, status, patch, spec, runtime, retry, name, **_):
        pending = list(status.get("pending") or [])
        record("restart", {"name": name}, pending=status.get("pending"), seconds=runtime.total_seconds() >= 0)
        if not pending and "pending" not in status:
            pending = [f"{node['name']}-{n}" for node in spec["nodes"]["data"] for n in range(node["replicas"])]
        elif pending:
            pending.pop(0)
        patch.status["pending"] = pending or None
        if pending:
            raise kopf.TemporaryError(f"{len(pending)} pods are left.", delay=0.2 if "pending" in status else 2)


class Scale(Step):
    async def handle(self, diff, name, **_):
        items = []
        for operation, path, old, new in diff:
            if path == ("spec", "nodes", "data"):
                for number, (before, after) in enumerate(zip(old, new, strict=True)):
                    if before["replicas"] != after["replicas"]:
                        change = (str(number), "replicas"), before["replicas"], after["replicas"]
                        items.append(kopf.DiffItem(operation, *change))
        inner = kopf.Diff(items)
        record("scale", {"name": name}, items=[list(item) for item in inner], shown=str(inner))
        if inner[0].new > 8:
            raise kopf.HandlerTimeoutError("too slow")


class After(Step):
    async def handle(self, status, name, **_):
        sent, self.context["notifications"] = self.context.get("notifications"), []
        record("after", {"name": name}, sent=sent, over=sorted(key for key in status if key.startswith(UPDATE + "/")))


@kopf.on.create("apples", annotations={"managed": lambda value, **_: value != "no"})
async def cluster_create(spec, patch, status, **_):
    context = status.get("cluster_create") or {}
    ref = told(spec)
    for node in spec["nodes"]["data"]:
        kopf.register(fn=made(node, ref), id=f"set_{node['name']}")
    kopf.register(fn=made({"name": "bootstrap"}, ref), id="bootstrap", timeout=60, backoff=0.2)
    patch.status["cluster_create"] = context


def made(node, ref):
    async def make(retry, name, **_):
        record("made", {"name": name}, node=node, ref=ref, retry=retry)
        if node["name"] == "bootstrap" and not retry:
            raise ConnectionError("not there yet")
        return {"success": True, "ref": ref}

    return make


@kopf.on.update("apples", id=UPDATE, annotations={"managed": lambda value, **_: value != "no"})
async def cluster_update(patch, status, diff, **_):
    context = status.get(UPDATE)
    ref = told(diff)
    if not context:
        context = {"ref": ref}
    elif context.get("ref", "") != ref:
        # What the status holds is changed in place, and given to the patch afterwards.
        context["ref"] = ref
    paths = {path for _, path, *_ in diff}
    steps = {"before": Before}
    if paths & {("spec", "cluster", "version"), ("spec", "cluster", "registry")}:
        steps |= {"upgrade": Upgrade, "restart": Restart}
    if ("spec", "nodes", "data") in paths:
        steps |= {"scale": Scale}
    if len(steps) == 1:
        return
    depends_on = []
    for step, cls in {**steps, "after": After}.items():
        fn = cls(ref, context, depends_on.copy(), whatever=step == "after")()
        kopf.register(fn=fn, id=step, timeout=60)
        depends_on.append(f"{UPDATE}/{step}")
    patch.status[UPDATE] = context


@kopf.on.field("apples", field="spec.cluster.allowed")
async def allowed(diff, name, **_):
    change: kopf.DiffItem = diff[0]
    record("allowed", {"name": name}, change=list(change), new=change.new, operation=change.operation.value)


@kopf.on.update("", "v1", "secrets", labels={"password": "true"})
async def secret_update(diff, name, **_):
    for number, (_, path, old, new) in enumerate(diff):
        if path[0] == "data":
            kopf.register(fn=changed(name, old, new), id=f"update-{number}-{path[1]}", timeout=60)


def changed(name, *values):
    async def change(**_):
        decoded = [base64.b64decode(value).decode() if value else value for value in values]
        record("password", {"name": name}, decoded=decoded)

    return change


@kopf.on.field("", "v1", "services", labels={"part": "of"}, field="status.loadBalancer.ingress", timeout=3600)
async def address(diff, meta, name, **_):
    if len(diff) == 0:
        return
    change = diff[0]
    if change.operation == kopf.DiffOperation.REMOVE or not change.new:
        return
    record("address", {"name": name}, ip=change.new[0].get("ip"), label=meta["labels"]["part"])


@kopf.timer("apples", interval=0.3, initial_delay=0.2, annotations={"pinged": "yes"})
async def ping(spec, status, patch, name, **_):
    wanted = sum(node["replicas"] for node in spec["nodes"]["data"])
    if (status.get("health") or {}).get("wanted") != wanted:
        record("ping", {"name": name}, before=status.get("health"), wanted=wanted)
    patch.status["health"] = {"wanted": wanted}
