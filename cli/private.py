"""The inner modules of Kopf, and the public names for their content, for operators that import them."""

from collections.abc import Collection, Iterable
from typing import Final

INNER: Final = {
    "_cogs": "aiokits clients configs helpers structs",
    "_cogs.aiokits": "aioadapters aiobindings aioenums aiotasks aiotime aiotoggles aiovalues",
    "_cogs.clients": "api auth creating errors events fetching patching scanning watching",
    "_cogs.configs": "arrays configuration conventions diffbase progress",
    "_cogs.helpers": "aiohttpcaps hostnames loaders thirdparty typedefs versions",
    "_cogs.structs": "bodies credentials dicts diffs ephemera finalizers ids patches references reviews",
    "_core": "actions engines intents reactor",
    "_core.actions": "application execution invocation lifecycles loggers progression throttlers",
    "_core.engines": "activities admission daemons indexing peering posting probing",
    "_core.intents": "callbacks causes filters handlers piggybacking registries stoppers",
    "_core.reactor": "inventory observation orchestration processing queueing running subhandling",
    "_kits": "hierarchies loops runner webhacks webhooks",
}
"""Private package of Kopf 1.45.2 -> its modules."""

FORMER: Final = frozenset(
    {"clients", "config", "engines", "reactor", "storage", "structs", "toolkits", "utilities", "events"}
)
"""The modules that versions of Kopf up to 1.33 had instead, or let users import."""

RENAMED: Final = {
    "ContainerMemo": "Memo",
    "GlobalRegistry": "OperatorRegistry",
    "HandlerFatalError": "PermanentError",
    "HandlerRetryError": "TemporaryError",
    "KopfRunner": "testing.KopfRunner",
    "ObjectDict": "Memo",
    "SmartOperatorRegistry": "OperatorRegistry",
}
"""Private or former name -> public name."""

MODULES: Final = {
    "bodies": "Body Meta Spec Status RawBody RawEvent build_object_reference build_owner_reference",
    "callbacks": "all_ any_ none_ not_",
    "causation": "Reason",
    "causes": "Reason",
    "configuration": "OperatorSettings",
    "containers": "Memo",
    "credentials": "ConnectionInfo LoginError AiohttpSession",
    "diffbase": "DiffBaseStorage AnnotationsDiffBaseStorage StatusDiffBaseStorage MultiDiffBaseStorage",
    "diffs": "Diff DiffItem DiffOperation",
    "ephemera": "Memo Index Store",
    "errors": "TemporaryError PermanentError",
    "execution": "TemporaryError PermanentError ErrorsMode",
    "filters": "ABSENT PRESENT",
    "handlers": "ErrorsMode TemporaryError PermanentError",
    "hierarchies": "adopt label append_owner_reference remove_owner_reference",
    "ids": "HandlerId",
    "invocation": "execute",
    "lifecycles": "lifecycles set_default_lifecycle",
    "loggers": "ObjectLogger LogFormat configure",
    "logging": "ObjectLogger LogFormat configure",
    "patches": "Patch",
    "piggybacking": "login_via_client login_via_pykube login_with_kubeconfig login_with_service_account",
    "posting": "event info warn exception",
    "progress": "ProgressStorage AnnotationsProgressStorage StatusProgressStorage SmartProgressStorage",
    "references": "Resource EVERYTHING",
    "registries": "OperatorRegistry get_default_registry set_default_registry",
    "running": "run operator spawn_tasks run_tasks",
    "stoppers": "DaemonStopped DaemonStoppingReason",
    "subhandling": "execute",
    "webhooks": "WebhookServer WebhookAutoServer WebhookAutoTunnel",
}
"""Last part of a module's name -> its public names."""


def inner_modules() -> frozenset[str]:
    """The full names of all private modules, packages included."""
    inside = {f"kopf.{package}.{part}" for package, parts in INNER.items() for part in parts.split()}
    return frozenset(inside | {f"kopf.{package}" for package in INNER})


def is_inner(module: str) -> bool:
    """Whether a module of this full name is, or was, an inner one of Kopf."""
    package, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return package == "kopf" and (part in FORMER or (part.startswith("_") and part != "__main__"))


def advice(module: str, names: Iterable[str], public: Collection[str]) -> str:
    """The public names to import instead of names from an inner module; `public` are all public names."""
    wanted = list(names) or [module.rpartition(".")[2]]
    found: dict[str, str] = {}
    for name in wanted:
        if name in public or name in RENAMED:
            found[name] = f"`kopf.{RENAMED.get(name, name)}`"
        elif name in MODULES:
            found[name] = ", ".join(f"`kopf.{known}`" for known in MODULES[name].split())
        elif name.endswith("Settings"):
            found[name] = "`kopf.OperatorSettings`"
    told = "; ".join(f"for {name} that is {text}" for name, text in found.items())
    left = [name for name in wanted if name not in found]
    nothing = f" There is nothing public for {', '.join(left)}." if left and found else ""
    return f"Import what is needed from `kopf` itself, where all public names are{': ' if told else ''}{told}.{nothing}"
