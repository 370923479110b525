"""An operator as users write it, only type-checked: any subset of arguments, sync and async, all decorators."""

import functools
from collections.abc import Mapping
from typing import Any

from ctl import on
from ctl.client.resources import Resource
from ctl.handlers.causes.diffs import Diff
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body, Meta, RawEvent, Spec, Status
from ctl.handlers.declaration.filters import ABSENT, PRESENT, all_, any_, none_, not_
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.declaration.targets import EVERYTHING
from ctl.handlers.errors import ErrorsMode, PermanentError, TemporaryError
from ctl.handlers.settings import OperatorSettings


@on.startup()
def configure(settings: OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.watching.label_selectors["kopfexamples"] = "app=mine"
    settings.peering.namespaced = True
    settings.execution.max_workers = 10


@on.startup(id="other", retries=3, errors=ErrorsMode.PERMANENT)
async def configure_async(**_: Any) -> None: ...


@on.cleanup()
@on.probe(id="now")
def status_of(retry: int, **kwargs: Any) -> dict[str, int]:
    return {"retry": retry}


@on.create("kopfexamples")
def everything_is_optional(**_: Any) -> None: ...


@on.create("kopf.dev", "v1", "kopfexamples")
@on.update("kopf.dev/v1", "kopfexamples", field="spec.x", old=1, new=PRESENT)
@on.resume(kind="KopfExample", deleted=True)
def several(
    spec: Spec, meta: Meta, status: Status, body: Body, patch: Patch, name: str, namespace: str | None, **_: Any
) -> Mapping[str, str]:
    if not spec.get("x"):
        raise PermanentError("no x")
    patch.status["seen"] = name
    return {"seen": name}


@on.delete("kopfexamples.v1.kopf.dev", optional=True, timeout=60, backoff=1.5)
async def deleted(spec: dict[str, Any], uid: str, **_: object) -> str:
    raise TemporaryError("later", delay=10)


@on.field("kopfexamples", field=["spec", "x"], value=ABSENT)
async def changed(old: Any, new: Any, diff: Diff, **_: Any) -> None: ...


@on.event("kopf.dev", EVERYTHING, labels={"a": "b", "c": PRESENT, "d": lambda value, **_: value != "x"})
def event(event: RawEvent, type: str | None, **_: Any) -> None: ...


def is_small(spec: Spec, **_: Any) -> bool:
    return bool(spec.get("size", 0) < 3)


def is_mine(value: str | None, /, **_: Any) -> bool:
    return value == "mine"


def only_preferred(resource: Resource) -> bool:
    return resource.preferred


@on.event(only_preferred, group="kopf.dev", when=all_([is_small, not_(is_small), any_([is_small]), none_([])]))
@on.create("kopfexamples", annotations={"owner": any_([is_mine])}, when=lambda name, **_: name.startswith("x"))
def filtered(**_: Any) -> None: ...


@on.index("v1", "pods")
def pods_by_node(body: Body, **_: Any) -> dict[str, str]:
    return {str(body.spec.get("nodeName")): str(body.metadata.name)}


@on.daemon("kopfexamples", initial_delay=lambda spec, **_: float(spec.get("delay", 0)), cancellation_timeout=10)
async def daemon(stopped: Any, **_: Any) -> None: ...


@on.timer("kopfexamples", interval=10, sharp=True, idle=5, initial_delay=3)
def timer(**_: Any) -> None: ...


@on.validate("kopfexamples", operations=["CREATE", "UPDATE"], subresource="*")
def validate(warnings: list[str], **_: Any) -> None: ...


@on.mutate("kopfexamples", operations={"CREATE"}, persistent=True, side_effects=False, ignore_failures=True)
async def mutate(patch: Patch, **_: Any) -> None: ...


def handle_item(item: str, *, spec: Spec, **_: Any) -> None: ...


@on.create("kopfexamples", registry=OperatorRegistry())
def parent(spec: Spec, **_: Any) -> None:
    for item in spec.get("items", []):

        @on.subhandler(id=item, field="spec.items", value=PRESENT)
        def child(item: str = item, **_: Any) -> None: ...

        on.register(functools.partial(handle_item, item=item), id=item, retries=2)


# Decorated functions keep their own types.
number: int = status_of(3)["retry"]
small: bool = is_small(Spec({}))
