"""A client-go-style controller toolkit for Python that runs Kopf operators unmodified.

Names are looked up when they are first used, so importing one sub-package loads no other. The decorators are in `ctl.on`;
what else is public stands in `__all__`, and the sub-packages (`ctl.client`, `ctl.informers`, `ctl.workqueue`,
`ctl.controller`, `ctl.sandbox`) have an interface of their own.
"""

from typing import TYPE_CHECKING, Any

from ._exports import resolve
from ._version import VERSION as __version__  # noqa: N811 - a constant by either name

if TYPE_CHECKING:
    from . import on
    from .cli.alias import install_as_kopf
    from .client.resources import Resource
    from .handlers.background.stoppers import (
        AsyncDaemonStopperChecker,
        DaemonStopped,
        DaemonStoppingReason,
        SyncDaemonStopperChecker,
    )
    from .handlers.causation.causes import Reason
    from .handlers.causation.diffs import Diff, DiffItem, DiffOperation
    from .handlers.causation.fields import FieldPath, FieldSpec
    from .handlers.causation.memos import Memo
    from .handlers.causation.patch import Patch, PatchFn
    from .handlers.causation.views import (
        Annotations,
        Body,
        BodyEssence,
        Labels,
        Meta,
        ObjectReference,
        OwnerReference,
        RawBody,
        RawEvent,
        RawEventType,
        Spec,
        Status,
    )
    from .handlers.connections import AiohttpSession, ConnectionInfo
    from .handlers.declaration.criteria import ABSENT, PRESENT, all_, any_, none_, not_
    from .handlers.declaration.registry import OperatorRegistry, get_default_registry, set_default_registry
    from .handlers.declaration.specs import HandlerId, Operation
    from .handlers.declaration.targets import EVERYTHING
    from .handlers.errors import (
        AdmissionError,
        ErrorsMode,
        HandlerRetriesError,
        HandlerTimeoutError,
        LoginError,
        PermanentError,
        TemporaryError,
    )
    from .handlers.execution import lifecycles
    from .handlers.execution.lifecycles import get_default_lifecycle, set_default_lifecycle
    from .handlers.execution.subhandlers import execute
    from .handlers.hierarchies import (
        adjust_namespace,
        adopt,
        append_owner_reference,
        build_object_reference,
        build_owner_reference,
        harmonize_naming,
        label,
        remove_owner_reference,
    )
    from .handlers.indices import Index, Store
    from .handlers.loggers import LocalObjectLogger, ObjectLogger, configure
    from .handlers.logins import (
        login_via_async_client,
        login_via_client,
        login_via_pykube,
        login_with_kubeconfig,
        login_with_service_account,
    )
    from .handlers.operator import operator, run, run_tasks, spawn_tasks
    from .handlers.posting import event, exception, info, warn
    from .handlers.settings import OperatorSettings
    from .handlers.storage.diffbase import (
        AnnotationsDiffBaseStorage,
        DiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from .handlers.storage.progress import (
        AnnotationsProgressStorage,
        MultiProgressStorage,
        ProgressRecord,
        ProgressStorage,
        SmartProgressStorage,
        StatusProgressStorage,
    )
    from .on import daemon, index, register, subhandler, timer
    from .runtime.logs import LogFormat, Logger

__all__ = [
    "ABSENT",
    "EVERYTHING",
    "PRESENT",
    "AdmissionError",
    "AiohttpSession",
    "Annotations",
    "AnnotationsDiffBaseStorage",
    "AnnotationsProgressStorage",
    "AsyncDaemonStopperChecker",
    "Body",
    "BodyEssence",
    "ConnectionInfo",
    "DaemonStopped",
    "DaemonStoppingReason",
    "Diff",
    "DiffBaseStorage",
    "DiffItem",
    "DiffOperation",
    "ErrorsMode",
    "FieldPath",
    "FieldSpec",
    "HandlerId",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "Index",
    "Labels",
    "LocalObjectLogger",
    "LogFormat",
    "Logger",
    "LoginError",
    "Memo",
    "Meta",
    "MultiDiffBaseStorage",
    "MultiProgressStorage",
    "ObjectLogger",
    "ObjectReference",
    "Operation",
    "OperatorRegistry",
    "OperatorSettings",
    "OwnerReference",
    "Patch",
    "PatchFn",
    "PermanentError",
    "ProgressRecord",
    "ProgressStorage",
    "RawBody",
    "RawEvent",
    "RawEventType",
    "Reason",
    "Resource",
    "SmartProgressStorage",
    "Spec",
    "Status",
    "StatusDiffBaseStorage",
    "StatusProgressStorage",
    "Store",
    "SyncDaemonStopperChecker",
    "TemporaryError",
    "__version__",
    "adjust_namespace",
    "adopt",
    "all_",
    "any_",
    "append_owner_reference",
    "build_object_reference",
    "build_owner_reference",
    "configure",
    "daemon",
    "event",
    "exception",
    "execute",
    "get_default_lifecycle",
    "get_default_registry",
    "harmonize_naming",
    "index",
    "info",
    "install_as_kopf",
    "label",
    "lifecycles",
    "login_via_async_client",
    "login_via_client",
    "login_via_pykube",
    "login_with_kubeconfig",
    "login_with_service_account",
    "none_",
    "not_",
    "on",
    "operator",
    "register",
    "remove_owner_reference",
    "run",
    "run_tasks",
    "set_default_lifecycle",
    "set_default_registry",
    "spawn_tasks",
    "subhandler",
    "timer",
    "warn",
]


if not TYPE_CHECKING:  # a checker that saw it would take any name for granted

    def __getattr__(name: str) -> Any:
        value = resolve(__name__, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
