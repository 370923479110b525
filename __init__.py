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
    from .client.config.loading import load_access
    from .client.errors import AlreadyExists, APIError, Conflict, Forbidden, Invalid, NotFound, RequestError
    from .client.fence import NotLeading
    from .client.objects import Object
    from .client.resources import Key, Resource
    from .client.rest import Client
    from .controller.api import conditions, finalizers, ownership
    from .controller.api.client import CachedClient, Change, UnknownResource, WriteResult
    from .controller.api.conditions import Condition
    from .controller.api.ownership import OwnershipError
    from .controller.api.writes import KeepsChanging
    from .controller.building.builder import controller
    from .controller.building.context import Context
    from .controller.kernel import mappers, predicates
    from .controller.kernel.reconciler import Attempt, Result, TerminalError, Trigger
    from .controller.kernel.source import Channel, every
    from .controller.leader.leadership import Leadership
    from .controller.leader.lease_client import LeaderElectionConfig
    from .controller.leader.lease_rules import LeaseRules
    from .controller.program.manager import Manager, Stage
    from .controller.program.serve import ServeOptions, serve
    from .controller.program.stopping import end_process
    from .controller.program.terms import StillActing
    from .handlers.causes.causes import Reason
    from .handlers.causes.diffs import Diff, DiffItem, DiffOperation
    from .handlers.causes.fields import FieldPath, FieldSpec
    from .handlers.causes.patch import Patch, PatchFn
    from .handlers.causes.views import (
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
    from .handlers.daemons.stoppers import (
        AsyncDaemonStopperChecker,
        DaemonStopped,
        DaemonStoppingReason,
        SyncDaemonStopperChecker,
    )
    from .handlers.declaration.filters import ABSENT, PRESENT, all_, any_, none_, not_
    from .handlers.declaration.registry import OperatorRegistry, get_default_registry, set_default_registry
    from .handlers.declaration.specs import HandlerId, Operation
    from .handlers.declaration.targets import EVERYTHING
    from .handlers.environment.memories import Memo
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
    from .handlers.indices import Index, Store
    from .handlers.kopf.connections import AiohttpSession, ConnectionInfo
    from .handlers.kopf.hierarchies import (
        adjust_namespace,
        adopt,
        append_owner_reference,
        build_object_reference,
        build_owner_reference,
        harmonize_naming,
        label,
        remove_owner_reference,
    )
    from .handlers.kopf.logins import (
        login_via_async_client,
        login_via_client,
        login_via_pykube,
        login_with_kubeconfig,
        login_with_service_account,
    )
    from .handlers.kopf.posting import event, exception, info, warn
    from .handlers.loggers import LocalObjectLogger, ObjectLogger, configure
    from .handlers.running.declared import declare
    from .handlers.running.operator import operator, run, run_tasks, spawn_tasks
    from .handlers.settings import OperatorSettings
    from .handlers.storage.diffbase import (
        AnnotationsDiffBaseStorage,
        DiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from .handlers.storage.outside import ConfigMapProgressStorage, OutsideProgressStorage
    from .handlers.storage.progress import (
        AnnotationsProgressStorage,
        MultiProgressStorage,
        ProgressRecord,
        ProgressStorage,
        SmartProgressStorage,
        StatusProgressStorage,
    )
    from .informers.factory import SharedInformerFactory
    from .on import daemon, index, register, subhandler, timer
    from .runtime.logs import LogFormat, Logger

__all__ = [
    "ABSENT",
    "EVERYTHING",
    "PRESENT",
    "APIError",
    "AdmissionError",
    "AiohttpSession",
    "AlreadyExists",
    "Annotations",
    "AnnotationsDiffBaseStorage",
    "AnnotationsProgressStorage",
    "AsyncDaemonStopperChecker",
    "Attempt",
    "Body",
    "BodyEssence",
    "CachedClient",
    "Change",
    "Channel",
    "Client",
    "Condition",
    "ConfigMapProgressStorage",
    "Conflict",
    "ConnectionInfo",
    "Context",
    "DaemonStopped",
    "DaemonStoppingReason",
    "Diff",
    "DiffBaseStorage",
    "DiffItem",
    "DiffOperation",
    "ErrorsMode",
    "FieldPath",
    "FieldSpec",
    "Forbidden",
    "HandlerId",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "Index",
    "Invalid",
    "KeepsChanging",
    "Key",
    "Labels",
    "LeaderElectionConfig",
    "Leadership",
    "LeaseRules",
    "LocalObjectLogger",
    "LogFormat",
    "Logger",
    "LoginError",
    "Manager",
    "Memo",
    "Meta",
    "MultiDiffBaseStorage",
    "MultiProgressStorage",
    "NotFound",
    "NotLeading",
    "Object",
    "ObjectLogger",
    "ObjectReference",
    "Operation",
    "OperatorRegistry",
    "OperatorSettings",
    "OutsideProgressStorage",
    "OwnerReference",
    "OwnershipError",
    "Patch",
    "PatchFn",
    "PermanentError",
    "ProgressRecord",
    "ProgressStorage",
    "RawBody",
    "RawEvent",
    "RawEventType",
    "Reason",
    "RequestError",
    "Resource",
    "Result",
    "ServeOptions",
    "SharedInformerFactory",
    "SmartProgressStorage",
    "Spec",
    "Stage",
    "Status",
    "StatusDiffBaseStorage",
    "StatusProgressStorage",
    "StillActing",
    "Store",
    "SyncDaemonStopperChecker",
    "TemporaryError",
    "TerminalError",
    "Trigger",
    "UnknownResource",
    "WriteResult",
    "__version__",
    "adjust_namespace",
    "adopt",
    "all_",
    "any_",
    "append_owner_reference",
    "build_object_reference",
    "build_owner_reference",
    "conditions",
    "configure",
    "controller",
    "daemon",
    "declare",
    "end_process",
    "event",
    "every",
    "exception",
    "execute",
    "finalizers",
    "get_default_lifecycle",
    "get_default_registry",
    "harmonize_naming",
    "index",
    "info",
    "install_as_kopf",
    "label",
    "lifecycles",
    "load_access",
    "login_via_async_client",
    "login_via_client",
    "login_via_pykube",
    "login_with_kubeconfig",
    "login_with_service_account",
    "mappers",
    "none_",
    "not_",
    "on",
    "operator",
    "ownership",
    "predicates",
    "register",
    "remove_owner_reference",
    "run",
    "run_tasks",
    "serve",
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
