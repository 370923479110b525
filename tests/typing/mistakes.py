"""Mistakes that a type checker must find: each ignored error below is there, or the check of this file fails."""

from typing import Any

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
