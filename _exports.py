"""The names of the facade, where each lives, and the ones that are still to come.

One table for `import ctl`, for `import kopf` under `ctl run`, and for the tests that keep them equal. Nothing is imported
until a name is asked for: `import ctl.workqueue` loads neither the HTTP stack nor a client library.
"""

import importlib
from collections.abc import Mapping
from typing import Any, Final

EXPORTS: Final[Mapping[str, str]] = {
    name: module
    for module, names in {
        "cli.alias": "install_as_kopf",
        "client.config.loading": "load_access",
        "client.errors": "APIError AlreadyExists Conflict Forbidden Invalid NotFound RequestError",
        "client.fence": "NotLeading",
        "client.objects": "Object",
        "client.resources": "Key Resource",
        "client.rest": "Client",
        "controller.api.client": "CachedClient Change UnknownResource WriteResult",
        "controller.api.conditions": "Condition",
        "controller.building.context": "Context",
        "controller.leader.leadership": "Leadership",
        "controller.leader.lease_client": "LeaderElectionConfig",
        "controller.leader.lease_rules": "LeaseRules",
        "controller.program.manager": "Manager Stage",
        "controller.api.ownership": "OwnershipError",
        "controller.kernel.reconciler": "Attempt Result TerminalError Trigger",
        "controller.api.writes": "KeepsChanging",
        "controller.program.serve": "ServeOptions serve",
        "controller.kernel.source": "Channel every",
        "controller.program.stopping": "end_process",
        "controller.program.terms": "StillActing",
        "handlers.running.declared": "declare",
        "informers.factory": "SharedInformerFactory",
        "handlers.daemons.stoppers": """
            AsyncDaemonStopperChecker DaemonStopped DaemonStoppingReason SyncDaemonStopperChecker
        """,
        "handlers.causes.causes": "Reason",
        "handlers.causes.diffs": "Diff DiffItem DiffOperation",
        "handlers.causes.fields": "FieldPath FieldSpec",
        "handlers.environment.memories": "Memo",
        "handlers.causes.patch": "Patch PatchFn",
        "handlers.causes.views": """
            Annotations Body BodyEssence Labels Meta ObjectReference OwnerReference RawBody RawEvent RawEventType Spec Status
        """,
        "handlers.kopf.connections": "AiohttpSession ConnectionInfo",
        "handlers.declaration.filters": "ABSENT PRESENT all_ any_ none_ not_",
        "handlers.declaration.registry": "OperatorRegistry get_default_registry set_default_registry",
        "handlers.declaration.specs": "HandlerId Operation",
        "handlers.declaration.targets": "EVERYTHING",
        "handlers.errors": """
            AdmissionError ErrorsMode HandlerRetriesError HandlerTimeoutError LoginError PermanentError TemporaryError
        """,
        "handlers.execution.lifecycles": "get_default_lifecycle set_default_lifecycle",
        "handlers.execution.subhandlers": "execute",
        "handlers.indices": "Index Store",
        "handlers.loggers": "LocalObjectLogger ObjectLogger configure",
        "handlers.kopf.hierarchies": """
            adjust_namespace adopt append_owner_reference build_object_reference build_owner_reference harmonize_naming label
            remove_owner_reference
        """,
        "handlers.kopf.logins": """
            login_via_async_client login_via_client login_via_pykube login_with_kubeconfig login_with_service_account
        """,
        "handlers.running.operator": "operator run run_tasks spawn_tasks",
        "handlers.kopf.posting": "event exception info warn",
        "handlers.settings": "OperatorSettings",
        "handlers.storage.diffbase": """
            AnnotationsDiffBaseStorage DiffBaseStorage MultiDiffBaseStorage StatusDiffBaseStorage
        """,
        "handlers.storage.outside": "ConfigMapProgressStorage OutsideProgressStorage",
        "handlers.storage.progress": """
            AnnotationsProgressStorage MultiProgressStorage ProgressRecord ProgressStorage SmartProgressStorage
            StatusProgressStorage
        """,
        "on": "daemon index register subhandler timer",
        "runtime.logs": "LogFormat Logger",
    }.items()
    for name in names.split()
}
"""Public name -> the module that has it, relative to the package."""

MODULES: Final[Mapping[str, str]] = {
    "conditions": "controller.api.conditions",
    "controller": "controller",
    "finalizers": "controller.api.finalizers",
    "lifecycles": "handlers.execution.lifecycles",
    "mappers": "controller.kernel.mappers",
    "on": "on",
    "ownership": "controller.api.ownership",
    "predicates": "controller.kernel.predicates",
}
"""Public names that are modules -> the module, relative to the package."""

OWN: Final = frozenset(
    [
        "APIError",
        "AlreadyExists",
        "Attempt",
        "CachedClient",
        "Change",
        "Channel",
        "Client",
        "Condition",
        "ConfigMapProgressStorage",
        "OutsideProgressStorage",
        "Conflict",
        "Context",
        "SharedInformerFactory",
        "Forbidden",
        "Invalid",
        "KeepsChanging",
        "Key",
        "Leadership",
        "LeaderElectionConfig",
        "LeaseRules",
        "Manager",
        "NotFound",
        "NotLeading",
        "Object",
        "OwnershipError",
        "RequestError",
        "Result",
        "ServeOptions",
        "Stage",
        "StillActing",
        "TerminalError",
        "Trigger",
        "UnknownResource",
        "WriteResult",
        "conditions",
        "controller",
        "declare",
        "end_process",
        "every",
        "finalizers",
        "install_as_kopf",
        "load_access",
        "mappers",
        "ownership",
        "predicates",
        "serve",
    ]
)
"""Public names that Kopf does not have."""

PENDING: Final[Mapping[str, str]] = {
    name: line
    for line, names in {
        "0.6": """
            on.mutate on.validate Headers SSLPeer UserInfo
            WebhookAutoServer WebhookAutoTunnel WebhookClientConfig WebhookClientConfigService
            WebhookDockerDesktopServer WebhookFn WebhookK3dServer WebhookMinikubeServer WebhookNgrokTunnel WebhookServer
            WebhookServerProtocol testing.KopfRunner
        """,
    }.items()
    for name in names.split()
}
"""Names of Kopf that can be imported but not used yet -> the release line that brings them; of sub-modules with a prefix."""


def resolve(package: str, name: str) -> Any:
    """Import what a public name stands for. Raises AttributeError for a name that is not, or not yet, there."""
    if name in MODULES:
        return importlib.import_module(f"{package}.{MODULES[name]}")
    if name in EXPORTS:
        return getattr(importlib.import_module(f"{package}.{EXPORTS[name]}"), name)
    later = f"; it comes with {PENDING[name]}" if name in PENDING else ""
    raise AttributeError(f"module {package!r} has no attribute {name!r}{later}", name=name)
