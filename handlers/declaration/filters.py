"""Filters say which objects and changes a handler is for.

All criteria of a handler are to be fulfilled. The cheap ones are asked first (labels, annotations, fields, changes) and
`when` last, as Kopf does; callbacks get the arguments of the cause, and None for a value that is absent.
"""

from collections.abc import Mapping
from typing import Any

from ..causes.causes import ChangingCause, ResourceCause
from ..causes.fields import FieldPath, resolve
from .criteria import ABSENT, MISSING, PRESENT, Kwargs, MetaFilterToken, all_, any_, fulfilled, match_meta, none_, not_
from .specs import ChangingSpec, ResourceSpec

__all__ = ["ABSENT", "PRESENT", "MetaFilterToken", "all_", "any_", "match", "none_", "not_", "prematch"]


def match(spec: ResourceSpec, cause: ResourceCause) -> bool:
    """Tell whether all filters of a handler are fulfilled, those on changes included. The resource is not looked at."""
    return spec.is_unfiltered or _matches(spec, cause, with_changes=True)


def prematch(spec: ResourceSpec, cause: ResourceCause) -> bool:
    """Tell whether the object is of interest to a handler, whatever has or has not changed now.

    Leaves out `old`, `new` and that the field must have changed: an object that matches nothing is left alone completely,
    while one that could match after a change must be remembered now.
    """
    return spec.is_unfiltered or _matches(spec, cause, with_changes=False)


def _matches(spec: ResourceSpec, cause: ResourceCause, *, with_changes: bool) -> bool:
    def kwargs() -> Mapping[str, Any]:
        return cause.kwargs

    if spec.labels and not match_meta(spec.label_criteria, cause.body.metadata.labels, kwargs):
        return False
    if spec.annotations and not match_meta(spec.annotation_criteria, cause.body.metadata.annotations, kwargs):
        return False
    if spec.field is not None and not _match_field(spec, cause, kwargs, with_changes=with_changes):
        return False
    return spec.when is None or bool(spec.when(**kwargs()))


def _match_field(spec: ResourceSpec, cause: ResourceCause, kwargs: Kwargs, *, with_changes: bool) -> bool:
    """Look at the object as it is; for a change, at both of its sides."""
    path = spec.field or ()
    # Daemons and timers know no sides of a change, even when it is one that asks whether they need the finalizer.
    if not isinstance(cause, ChangingCause) or not isinstance(spec, ChangingSpec):
        return fulfilled(spec.value, _value(cause.body, path), kwargs)
    old, new = _value(cause.old, path), _value(cause.new, path)
    if not fulfilled(spec.value, new, kwargs) and not fulfilled(spec.value, old, kwargs):
        return False
    return not with_changes or _match_change(spec, old, new, kwargs)


def _match_change(spec: ChangingSpec, old: Any, new: Any, kwargs: Kwargs) -> bool:
    if spec.field_needs_change and old == new:
        return False
    return (spec.old is None or fulfilled(spec.old, old, kwargs)) and (
        spec.new is None or fulfilled(spec.new, new, kwargs)
    )


def _value(body: Any, path: FieldPath) -> Any:
    return resolve(body, path, MISSING)
