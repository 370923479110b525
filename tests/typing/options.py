"""Each decorator with all of its options, by the names of the facade, only type-checked: what an editor offers is what is there."""

import datetime as dt
from typing import Any, assert_type

import ctl

LABELS: dict[str, Any] = {"a": "b", "c": ctl.PRESENT, "d": ctl.ABSENT, "e": lambda value, **_: value is None}


def when(spec: ctl.Spec, **_: Any) -> bool:
    return "x" in spec


def soon(**_: Any) -> float:
    return 1.5


REGISTRY = ctl.OperatorRegistry()


@ctl.on.startup(id="x", param=1, errors=ctl.ErrorsMode.PERMANENT, timeout=1, retries=2, backoff=3.5, registry=REGISTRY)
@ctl.on.cleanup(id="x", param=1, errors=ctl.ErrorsMode.IGNORED, timeout=1, retries=2, backoff=3.5, registry=REGISTRY)
@ctl.on.probe(id="x", param=1, errors=ctl.ErrorsMode.TEMPORARY, timeout=1, retries=2, backoff=3.5, registry=REGISTRY)
@ctl.on.leading(id="x", param=1, errors=None, timeout=None, retries=None, backoff=None, registry=None)
@ctl.on.standby(id="x", param=1, errors=None, timeout=None, retries=None, backoff=None, registry=None)
def activity(
    settings: ctl.OperatorSettings,
    memo: ctl.Memo,
    logger: ctl.Logger,
    retry: int,
    started: dt.datetime,
    runtime: dt.timedelta,
    param: Any,
    **_: Any,
) -> None:
    memo.count = retry
    logger.info("%s %s %s", started.isoformat(), runtime.total_seconds(), param)


@ctl.on.login(id="x", param=1, errors=ctl.ErrorsMode.PERMANENT, timeout=1, retries=2, backoff=3.5, registry=REGISTRY)
async def login(**_: Any) -> ctl.ConnectionInfo | None:
    return ctl.ConnectionInfo(server="https://localhost", token="x", priority=1, insecure=True)


@ctl.on.event(
    "kopf.dev",
    "v1",
    "kopfexamples",
    id="x",
    param=1,
    labels=LABELS,
    annotations={"x": "y"},
    when=when,
    field="spec.x",
    value=1,
    registry=REGISTRY,
)
@ctl.on.event(group="kopf.dev", version="v1", plural="kopfexamples")
@ctl.on.event(group=None, version=None, kind=None, plural=None, singular="kopfexample", shortcut=None, category=None)
@ctl.on.event(category="all")
@ctl.on.event(shortcut="kex")
def event(
    event: ctl.RawEvent,
    type: ctl.RawEventType,
    resource: ctl.Resource,
    labels: ctl.Labels,
    annotations: ctl.Annotations,
    patch: ctl.Patch,
    **_: Any,
) -> None:
    assert_type(event["object"], ctl.RawBody)
    assert_type(event["type"], ctl.RawEventType)
    assert_type(labels.get("x"), str | None)
    assert_type(annotations["x"], str)
    patch.metadata.labels["x"] = None
    patch.meta.annotations["x"] = "y"
    patch.fns.append(lambda body: body.setdefault("spec", {}).clear())


@ctl.index(
    "pods",
    id="x",
    param=1,
    errors=ctl.ErrorsMode.TEMPORARY,
    timeout=1,
    retries=2,
    backoff=3,
    labels=LABELS,
    annotations=LABELS,
    when=when,
    field=("spec", "x"),
    value=ctl.PRESENT,
    registry=REGISTRY,
)
def nodes(spec: ctl.Spec, name: str, **_: Any) -> dict[str, str]:
    return {str(spec.get("nodeName")): name}


@ctl.on.create(
    "kopfexamples",
    id="x",
    param=1,
    errors=ctl.ErrorsMode.PERMANENT,
    timeout=1.5,
    retries=2,
    backoff=3,
    labels=LABELS,
    annotations=LABELS,
    when=ctl.all_([when, ctl.not_(when), ctl.any_([when]), ctl.none_([when])]),
    field=["spec", "x"],
    value=lambda value, **_: value == "x",
    registry=REGISTRY,
)
@ctl.on.resume("kopfexamples", deleted=True, errors=None, timeout=None, field="spec", value=None)
@ctl.on.delete("kopfexamples", optional=True, retries=3, when=when)
@ctl.on.update("kopfexamples", field="spec.x", old=1, new=ctl.ABSENT, labels=LABELS, backoff=2)
@ctl.on.field("kopfexamples", field="spec.x", old=lambda value, **_: True, new="x", timeout=2)
@ctl.on.field("kopfexamples", field=("spec", "x"), value="x", id="x", param=2, registry=REGISTRY)
async def changed(
    body: ctl.Body,
    meta: ctl.Meta,
    spec: ctl.Spec,
    status: ctl.Status,
    patch: ctl.Patch,
    uid: str,
    name: str,
    namespace: str | None,
    reason: ctl.Reason,
    diff: ctl.Diff,
    old: ctl.BodyEssence | Any,
    new: ctl.BodyEssence | Any,
    logger: ctl.ObjectLogger,
    memo: ctl.Memo,
    nodes: ctl.Index[str, str],
    **_: Any,
) -> dict[str, str]:
    assert_type(body.spec, ctl.Spec)
    assert_type(body.metadata, ctl.Meta)
    assert_type(meta.labels, ctl.Labels)
    assert_type(meta.namespace, str | None)
    for operation, field, before, after in diff:
        assert_type(operation, ctl.DiffOperation)
        assert_type(field, ctl.FieldPath)
        logger.info("%s %s %s", before, after, reason)
    for item in diff:
        assert_type(item.op, ctl.DiffOperation)
    for pod in nodes.get("node", ()):
        assert_type(pod, str)
    patch.status["x"] = {"y": status.get("z"), "was": old, "is": new}
    ctl.info(body, reason="Known", message=f"{namespace}/{name} {uid}")
    ctl.event(body, type="Normal", reason="Known", message="x", backoffs=[1, 2])
    ctl.exception(body, exc=RuntimeError())
    child: dict[str, Any] = {"metadata": {}, "spec": dict(spec)}
    ctl.adopt(child)
    ctl.adopt([child], owner=body, forced=True, strict=True, nested=["spec.template"])
    ctl.label(child, {"x": "y"}, nested="spec.template")
    ctl.harmonize_naming(child)
    memo.x = 1
    await ctl.execute(fns={"part": activity})
    return {"x": "y"}


@ctl.daemon(
    "kopfexamples",
    id="x",
    param=1,
    errors=ctl.ErrorsMode.TEMPORARY,
    timeout=1,
    retries=2,
    backoff=3,
    initial_delay=soon,
    cancellation_backoff=1,
    cancellation_timeout=2.5,
    cancellation_polling=3,
    labels=LABELS,
    annotations=LABELS,
    when=when,
    field="spec.x",
    value=1,
    registry=REGISTRY,
)
async def monitor(stopped: ctl.DaemonStopped, **_: Any) -> None:
    while not stopped:
        await stopped.wait(10)
    assert_type(stopped.is_set(), bool)
    assert_type(stopped.reason, ctl.DaemonStoppingReason | None)


@ctl.daemon("kopfexamples")
def watch(stopped: ctl.DaemonStopped, **_: Any) -> None:
    while not stopped:
        stopped.wait(timeout=10)


@ctl.timer(
    "kopfexamples",
    id="x",
    param=1,
    errors=ctl.ErrorsMode.TEMPORARY,
    timeout=1,
    retries=2,
    backoff=3,
    interval=10,
    sharp=True,
    idle=3.5,
    initial_delay=5,
    labels=LABELS,
    annotations=LABELS,
    when=when,
    field="spec.x",
    value=1,
    registry=REGISTRY,
)
def tick(**_: Any) -> int:
    return 1


def choose(resource: ctl.Resource) -> bool:
    return resource.preferred and "list" in resource.verbs


@ctl.on.event(choose, group="kopf.dev")
@ctl.on.event(ctl.EVERYTHING, labels={"x": ctl.PRESENT})
@ctl.on.event(*ctl.Resource("kopf.dev", "v1", "kopfexamples"))
def chosen(**_: Any) -> None: ...


@ctl.on.create("kopfexamples")
def parent(spec: ctl.Spec, **_: Any) -> None:
    for item in spec["items"]:

        @ctl.subhandler(
            id=item,
            param=1,
            errors=ctl.ErrorsMode.IGNORED,
            timeout=1,
            retries=2,
            backoff=3,
            labels=LABELS,
            annotations=LABELS,
            when=when,
            field="spec.x",
            value=1,
        )
        def part(item: str = item, **_: Any) -> str:
            return item

        ctl.register(chosen, id=item, param=1, errors=None, timeout=1, retries=2, backoff=3, labels=LABELS, when=when)
        assert_type(part(), str)


# What is decorated keeps its type.
assert_type(tick(), int)
assert_type(choose(ctl.Resource("", "v1", "pods")), bool)


def embed() -> None:
    settings = ctl.OperatorSettings()
    settings.persistence.progress_storage = ctl.MultiProgressStorage(
        [ctl.AnnotationsProgressStorage(prefix="example.com"), ctl.StatusProgressStorage(field="status.x")]
    )
    settings.persistence.diffbase_storage = ctl.AnnotationsDiffBaseStorage(prefix="example.com", key="last")
    settings.networking.error_backoffs = [1, 2, 3]
    settings.execution.max_workers = 5
    ctl.configure(verbose=True, log_format=ctl.LogFormat.JSON)
    ctl.run(
        registry=REGISTRY,
        settings=settings,
        namespaces=["a", "b-*"],
        standalone=True,
        priority=10,
        peering_name="x",
        liveness_endpoint="http://0.0.0.0:8080/healthz",
        memo=ctl.Memo(x=1),
        lifecycle=ctl.lifecycles.asap,
    )
