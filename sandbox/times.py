"""Times with microseconds are read and written in the one form that the real server takes."""

import datetime as dt
import re
from typing import Any, Final

from .resources import Resource
from .status import Mistyped

# Dotted paths of the fields of Go type MicroTime, by bucket.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "events": ("eventTime", "series.lastObservedTime"),
    "leases.coordination.k8s.io": ("spec.acquireTime", "spec.renewTime"),
}
_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_SECONDS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def normalise(resource: Resource, body: dict[str, Any]) -> None:
    """Bring the times of a body into the server's form in place (stanzas on the way are copied).

    Any offset is read and written as Z; exactly six decimals are demanded, as by the real server. Raises a 400.
    """
    for path in _FIELDS.get(resource.bucket, ()):
        stanza, _, field = path.rpartition(".")
        holder = body.get(stanza) if stanza else body
        if not isinstance(holder, dict) or holder.get(field) is None:
            continue
        if stanza:
            holder = body[stanza] = dict(holder)
        holder[field] = _normal(resource, holder[field])


def _normal(resource: Resource, text: Any) -> str:
    if isinstance(text, str) and _FORM.fullmatch(text):
        try:
            moment = dt.datetime.fromisoformat(text).astimezone(dt.UTC)
        except ValueError:
            # Months, days and hours out of range.
            raise _refused(resource, text, text, "2006") from None
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    found = _SECONDS.match(text) if isinstance(text, str) else None
    if found is None:
        raise _refused(resource, str(text), str(text), "2006")
    raise _refused(resource, found.string, found.string[found.end() :], ".000000")


def _refused(resource: Resource, text: str, rest: str, expected: str) -> Mistyped:
    words = f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{rest}" as "{expected}"'
    head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    return Mistyped(f"{head}: {words}", words)
