"""The three lines at the start of `ctl run`: the namespaces and server, the user and ports, and the handled resources."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..client.config.loading import HOME_CONFIG, is_in_cluster, load_access, read_kubeconfig
from ..client.errors import AccessError
from ..controller.http.addresses import parse_http
from ..handlers.causes.causes import Activity
from ..handlers.declaration.registry import OperatorRegistry
from ..handlers.declaration.survey import Survey
from ..handlers.running.declared import declared, is_bare

MANY: Final = 10
"""The number of names that are shown; the others are counted."""


@dataclass(frozen=True, slots=True)
class Start:
    """The options of a run that the lines show."""

    namespaces: tuple[str, ...]
    """Empty: all namespaces."""
    kubeconfig: str | None = None
    context: str | None = None
    http: str = "auto"
    liveness: str | None = None
    leader_elect: bool | None = None


def summary(registry: OperatorRegistry, start: Start) -> list[str]:
    """The first two lines. They send no request, and do not know what startup handlers change later."""
    return [_where(registry, start), _whom(registry, start)]


def handled(registry: OperatorRegistry, found: Survey) -> str:
    """The third line: the handled resources with their versions, and those that the server does not have yet."""
    controllers = [spec.name for spec in declared(registry)]
    webhooks = [str(selector) for selector in registry.webhook_selectors()]
    named = [
        ("", [repr(resource) for resource in found.watched]),
        ("controllers of", controllers),
        ("reviews of", webhooks),
        ("and, when it is defined,", [str(selector) for selector in found.unresolved]),
        ("but not", [str(selector) for selector in found.ambiguous]),
        ("but not", [repr(resource) for resource in found.unreadable | found.unwritable]),
    ]
    parts = [f"{word} {_listed(sorted(names))}".strip() for word, names in named if names]
    if parts and not (found.watched or controllers or webhooks):
        parts.insert(0, "nothing yet")
    return f"Handled: {', '.join(parts) or 'nothing that is declared'}."


def idle(registry: OperatorRegistry, sources: Sequence[str]) -> str | None:
    """A warning if the operator has no handlers; else None."""
    if not is_bare(registry):
        return None
    return (
        f"No handlers are declared in {_listed(sources) or 'this program'}, so nothing will happen. Decorate functions at the top level "
        "(@ctl.on.create and the like, or Kopf's), in the default registry; name other modules that have some with -m."
    )


def _where(registry: OperatorRegistry, start: Start) -> str:
    if start.namespaces:
        place = f"namespace{'s' * (len(start.namespaces) > 1)} {_listed(start.namespaces)}"
    else:
        place = "all namespaces"
    logins = _logins(registry, start)
    if logins:
        return f"Where: {place}, of the server that the login handlers give ({_listed(logins)})."
    try:
        access = load_access(start.kubeconfig, start.context)
    except AccessError:
        return f"Where: {place}, of a server that is not found yet."
    return f"Where: {place} of {access.shown} ({access.origin})."


def _whom(registry: OperatorRegistry, start: Start) -> str:
    user = "whom the login handlers say" if _logins(registry, start) else _user(start)
    here = is_in_cluster()
    address = parse_http(start.http, in_cluster=here)
    pages = "nowhere" if address is None else f"port {address.port}" if address.port else "a free port"
    liveness = f", liveness at {start.liveness}" if start.liveness else ""
    elects = {
        True: "by a Lease",
        False: "none",
        None: "by a Lease, if that is allowed" if here and not os.environ.get("KUBECONFIG") else "none",
    }[start.leader_elect]
    return f"As {user}; metrics and health: {pages}{liveness}; leader election: {elects}."


def _user(start: Start) -> str:
    """The user of the kubeconfig, or the pod's account."""
    listed = start.kubeconfig or os.environ.get("KUBECONFIG", "")
    if not listed and start.context is None and is_in_cluster():
        return "the pod's service account"
    paths = [Path(path).expanduser() for path in listed.split(os.pathsep) if path] or [HOME_CONFIG.expanduser()]
    try:
        name = read_kubeconfig([path for path in paths if path.exists()]).select(start.context).user.name
    except AccessError:
        return "nobody yet"
    return f"the user {name!r} of the kubeconfig" if name else "a user without a name"


def _logins(registry: OperatorRegistry, start: Start) -> Sequence[str]:
    chosen = start.kubeconfig or start.context
    return [] if chosen else [spec.id for spec in registry.activities(Activity.AUTHENTICATION)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_shown(list(dict.fromkeys(names))))


def _shown(names: Sequence[str]) -> Iterator[str]:
    yield from names[:MANY]
    if len(names) > MANY:
        yield f"and {len(names) - MANY} more"
