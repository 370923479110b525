"""Mistakes that a type checker must find: each ignored error below is there, or the check of this file fails."""

from typing import Any

import ctl
from ctl import on
from ctl.handlers.settings import OperatorSettings


@on.create("kopfexamples", fild="spec.x")  # type: ignore[call-arg]
def misspelt(**_: Any) -> None: ...


@on.field("kopfexamples")  # type: ignore[call-arg]
def no_field(**_: Any) -> None: ...


@on.event("kopfexamples", retries=3)  # type: ignore[call-arg]
def events_are_not_retried(**_: Any) -> None: ...


@on.create("kopfexamples", timeout="soon")  # type: ignore[arg-type]
def no_number(**_: Any) -> None: ...


@on.create("kopfexamples", labels={"a": None})  # type: ignore[dict-item]
def none_is_no_criterion(**_: Any) -> None: ...


@on.validate("kopfexamples", operations=["CHANGE"])  # type: ignore[list-item]
def no_operation(**_: Any) -> None: ...


@on.startup  # type: ignore[arg-type]
def no_parentheses(**_: Any) -> None: ...


@on.startup()
def misspelt_setting(settings: OperatorSettings, **_: Any) -> None:
    settings.posting.enabeld = False  # type: ignore[attr-defined]


@on.update("kopfexamples", field=1)  # type: ignore[arg-type]
def no_path(**_: Any) -> None: ...


@on.create("kopfexamples", field="spec.x", old=1)  # type: ignore[call-arg]
def creations_have_no_old(**_: Any) -> None: ...


@on.create("kopfexamples", errors="ignored")  # type: ignore[arg-type]
def no_mode(**_: Any) -> None: ...


@on.delete("kopfexamples", deleted=True)  # type: ignore[call-arg]
def resuming_is_another_matter(**_: Any) -> None: ...


@ctl.timer("kopfexamples", interval="10s")  # type: ignore[arg-type]
def no_seconds(**_: Any) -> None: ...


@ctl.timer("kopfexamples", cancellation_timeout=1)  # type: ignore[call-arg]
def timers_are_not_cancelled(**_: Any) -> None: ...


@ctl.daemon("kopfexamples", interval=1)  # type: ignore[call-arg]
def daemons_have_no_interval(**_: Any) -> None: ...


@ctl.index("kopfexamples", when="spec")  # type: ignore[arg-type]
def no_callback(**_: Any) -> None: ...


@on.event(1, "kopfexamples")  # type: ignore[arg-type]
def no_group(**_: Any) -> None: ...


@on.event(plural=["kopfexamples"])  # type: ignore[arg-type]
def several_at_once(**_: Any) -> None: ...


@on.probe(labels={})  # type: ignore[call-arg]
def activities_have_no_objects(**_: Any) -> None: ...


def mistaken(spec: ctl.Spec, patch: ctl.Patch, stopped: ctl.DaemonStopped, **_: Any) -> None:
    spec["x"] = 1  # type: ignore[index]
    patch.satus["x"] = 1  # type: ignore[attr-defined]
    stopped.wait("long")  # type: ignore[arg-type]
    ctl.register(mistaken, field="spec.x")  # type: ignore[call-arg]
    ctl.info({}, message="without a reason")  # type: ignore[call-arg]
    ctl.run(namespace=1)  # type: ignore[arg-type]
    ctl.run(namespcaes=["a"])  # type: ignore[call-arg]
    raise ctl.TemporaryError("later", dealy=1)  # type: ignore[call-arg]
