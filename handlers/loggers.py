"""Loggers of handlers, whose records name the object.

A logger is made for each event of each object, and most are never used: the reference to the object is built with the first
record.

Records carry three attributes, which are Kopf's: `k8s_ref` (the object: apiVersion, kind, name, uid, namespace), `k8s_skip`
(true: never post it as a Kubernetes Event) and `settings` (those of the operator).
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from ..runtime.log_context import current_fields
from ..runtime.log_limits import shares
from ..runtime.logs import LogFormat, Style, Verbosity
from ..runtime.logs import configure as configure_logs

_objects = logging.getLogger("kopf.objects")
_objects.addFilter(shares)
_NO_METADATA: Mapping[str, Any] = {}


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """The logger of an object's change handlers, daemons and timers; its messages may be posted as Kubernetes Events.

    Its logger is `kopf.objects` for all objects. The reference is built from the body with the first record, and kept. Extras
    of a call are added to the record.
    """

    _skip = False
    # An attribute of the class: most instances are never used.
    logger = _objects
    _extra: dict[str, Any] | None = None

    def __init__(self, *, body: Mapping[str, Any], settings: Any = None) -> None:  # not calling super: see `extra`
        self._body = body
        self._settings = settings

    def let_go(self, body: Mapping[str, Any]) -> None:
        """Build the reference from what is left of the object."""
        self._body = body

    @property
    def extra(self) -> Mapping[str, Any]:  # type: ignore[override]  # an attribute in the base class: here it is lazy
        """The attributes of the records, built at the first use."""
        if self._extra is None:
            self._extra = {"k8s_skip": self._skip, "k8s_ref": reference(self._body), "settings": self._settings}
        return self._extra

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the object to the record."""
        given = kwargs.get("extra")
        kwargs["extra"] = {**self.extra, **given} if given else self.extra
        return msg, kwargs


class LocalObjectLogger(ObjectLogger):
    """The logger of event and admission handlers: its messages are never posted as Kubernetes Events."""

    _skip = True


class TerseObjectLogger(LocalObjectLogger):
    """The logger of index functions, which run for each object at every start: INFO counts as DEBUG, and DEBUG as less."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name is the base class's
        """Whether a record of this level, lowered by one, would be written."""
        return super().isEnabledFor(level if level > logging.INFO else level - 10)


class ObjectSubject:
    """Formats the object of a record: `[namespace/name] ` before the text, or a field of the JSON line."""

    reserved = frozenset({"k8s_ref", "k8s_skip", "settings"})

    def __init__(self, refkey: str | None = None) -> None:
        self._refkey = refkey or "object"

    def prefix(self, record: logging.LogRecord) -> str:
        """`[namespace/name] `, `[name] ` for a cluster-scoped object, nothing for a record without an object."""
        ref = getattr(record, "k8s_ref", None)
        if not ref:
            return ""
        namespace, name = ref.get("namespace"), ref.get("name", "")
        return f"[{namespace}/{name}] " if namespace else f"[{name}] "

    def reference(self, record: logging.LogRecord) -> tuple[str, Mapping[str, Any]] | None:
        """The object under the configured key: that of the record, else that of the attempt that logs."""
        ref = getattr(record, "k8s_ref", None) or current_fields().get("k8s_ref")
        return (self._refkey, ref) if ref else None


def configure(
    debug: bool | None = None,
    verbose: bool | None = None,
    quiet: bool | None = None,
    log_format: LogFormat | str = LogFormat.FULL,
    log_prefix: bool | None = False,
    log_refkey: str | None = None,
) -> None:
    """Set up logging as the command line does, for a program with an embedded operator.

    `log_format` may be a %-style format string (ValueError for anything else). `log_prefix=None` decides by the format: on for text, off for JSON.
    """
    if not isinstance(log_format, LogFormat | str):
        raise ValueError(f"Unsupported log format: {log_format!r}. Give a LogFormat, or a %-style format string.")  # noqa: TRY004 (as Kopf)
    prefix = log_format is not LogFormat.JSON if log_prefix is None else log_prefix
    verbosity = Verbosity(verbose=bool(verbose), debug=bool(debug), quiet=bool(quiet))
    configure_logs(verbosity, Style(format=log_format, subject=ObjectSubject(log_refkey), prefix=prefix))


def reference(body: Mapping[str, Any]) -> dict[str, Any]:
    """The apiVersion, kind, name, uid and namespace of an object; None for absent fields."""
    metadata = body.get("metadata") or _NO_METADATA
    return {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "namespace": metadata.get("namespace"),
    }
