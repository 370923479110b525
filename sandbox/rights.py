"""Rights follow from the Role, ClusterRole and binding objects of the store, as RBAC reads them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .history import Stored
from .status import Refused, Subject
from .store import Store

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_GROUP: Final = "rbac.authorization.k8s.io"
_READ: Final = ["get", "list", "watch"]
_WRITE: Final = ["create", "delete", "deletecollection", "patch", "update"]
_PLAIN: Final = [
    *("configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "pods/log", "pods/status"),
    *("replicationcontrollers", "serviceaccounts", "services", "services/status", "limitranges", "resourcequotas"),
]
_WORK: Final = ["apps", "batch", "autoscaling", "networking.k8s.io", "policy"]


def _rules(*rules: tuple[list[str], list[str], list[str]]) -> list[dict[str, Any]]:
    return [{"verbs": verbs, "apiGroups": groups, "resources": resources} for verbs, groups, resources in rules]


_VIEW: Final = _rules((_READ, [""], [*_PLAIN, "namespaces"]), (_READ, _WORK, ["*"]))
_EDIT: Final = [
    *_VIEW,
    *_rules((_READ, [""], ["secrets"]), (_WRITE, [""], [*_PLAIN, "secrets"]), (_WRITE, _WORK, ["*"])),
]
# Roles that every cluster has. They are no objects here, but bindings may refer to them.
_KNOWN_ROLES: Final[dict[str, list[dict[str, Any]]]] = {
    "cluster-admin": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ],
    "admin": [*_EDIT, *_rules((["*"], [_GROUP], ["roles", "rolebindings"]))],
    "edit": _EDIT,
    "view": _VIEW,
}
# What every cluster grants to those who have shown who they are.
_BASIC: Final[dict[str, list[dict[str, Any]]]] = {
    "system:basic-user": _rules(
        (["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        (["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ),
    "system:discovery": [
        {
            "verbs": ["get"],
            "nonResourceURLs": [
                *("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez"),
                *("/openapi", "/openapi/*", "/readyz", "/version", "/version/"),
            ],
        }
    ],
}
_PUBLIC: Final = [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}]


@dataclass(frozen=True)
class User:
    """Who asks: a name, the groups it is in, and what its token says of it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict, compare=False)

    def info(self) -> dict[str, Any]:
        """The user as reviews show it."""
        found: dict[str, Any] = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        return found | ({"extra": dict(self.extra)} if self.extra else {})


ADMIN: Final = User("system:admin", (MASTERS, AUTHENTICATED))
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Action:
    """What somebody wants to do: a verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def whole(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Decision:
    """Whether something is allowed, and why (empty where nothing is to be said)."""

    allowed: bool
    reason: str = ""


class Rights:
    """What users may do, by the roles and bindings that are stored now.

    The group `system:masters` may do everything. Escalation is not checked: who may write roles may write any.
    Aggregated roles are taken by their written rules.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def decide(self, user: User, action: Action) -> Decision:
        """Whether a user may do something."""
        if MASTERS in user.groups:
            return Decision(True)
        missing: list[str] = []
        for rules, reason in self._granted(user, action.namespace, missing):
            if any(_allows(rule, action) for rule in rules):
                return Decision(True, reason)
        return Decision(False, f"rbac: RBAC: {_joined(missing)}" if missing else "")

    def check(self, user: User, action: Action) -> None:
        """Raise the 403 for what a user may not do."""
        decision = self.decide(user, action)
        if not decision.allowed:
            raise refusal(user, action, decision.reason)

    def rules(self, user: User, namespace: str) -> tuple[list[Mapping[str, Any]], str]:
        """Every rule that holds for a user in a namespace, and what was wrong with the bindings."""
        if MASTERS in user.groups:
            return [*_KNOWN_ROLES["cluster-admin"]], ""
        missing: list[str] = []
        found = [rule for rules, _ in self._granted(user, namespace, missing) for rule in rules]
        return [*found], _joined(missing) if missing else ""

    def _granted(self, user: User, namespace: str, missing: list[str]) -> Iterator[tuple[list[dict[str, Any]], str]]:
        """The rules of each binding of a user, with the reason that they give."""
        if AUTHENTICATED in user.groups:
            for role, rules in _BASIC.items():
                words = f'RBAC: allowed by ClusterRoleBinding "{role}" of ClusterRole "{role}"'
                yield rules, f'{words} to Group "{AUTHENTICATED}"'
        yield _PUBLIC, ""
        for stored in self._objects("clusterrolebindings"):
            yield from self._bound(user, stored, missing)
        if namespace:
            for stored in self._objects("rolebindings"):
                if stored.namespace == namespace:
                    yield from self._bound(user, stored, missing)

    def _bound(self, user: User, stored: Stored, missing: list[str]) -> Iterator[tuple[list[dict[str, Any]], str]]:
        body = stored.decode()
        subject = next((one for one in body.get("subjects") or () if _is(user, one, stored.namespace)), None)
        if subject is None:
            return
        role = body.get("roleRef") or {}
        kind, name = role.get("kind", ""), role.get("name", "")
        rules = self._role(kind, name, stored.namespace)
        if rules is None:
            missing.append(f'{kind.lower()}.{_GROUP} "{name}" not found')
            return
        place = f'RoleBinding "{stored.name}/{stored.namespace}"'
        binding = place if stored.namespace else f'ClusterRoleBinding "{stored.name}"'
        account = subject.get("kind") == "ServiceAccount"
        who = f"{subject['name']}/{subject.get('namespace') or stored.namespace}" if account else subject["name"]
        yield rules, f'RBAC: allowed by {binding} of {kind} "{name}" to {subject["kind"]} "{who}"'

    def _role(self, kind: str, name: str, namespace: str) -> list[dict[str, Any]] | None:
        bucket = self._store.bucket(f"{'roles' if kind == 'Role' else 'clusterroles'}.{_GROUP}")
        stored = bucket.objects.get(f"{namespace}/{name}" if kind == "Role" else name)
        if stored is None:
            return _KNOWN_ROLES.get(name) if kind == "ClusterRole" else None
        found: list[dict[str, Any]] = stored.decode().get("rules") or []
        return found

    def _objects(self, plural: str) -> list[Stored]:
        bucket = self._store.bucket(f"{plural}.{_GROUP}")
        return [bucket.objects[key] for key in bucket.keys]


def _is(user: User, subject: Mapping[str, Any], namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(user.name == name)
    if kind == "Group":
        return name in user.groups
    return kind == "ServiceAccount" and user.name == (
        f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    )


def _allows(rule: Mapping[str, Any], action: Action) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and action.verb not in verbs:
        return False
    if action.path:
        return any(_covers(url, action.path) for url in rule.get("nonResourceURLs") or ())
    groups, names = rule.get("apiGroups") or (), rule.get("resourceNames") or ()
    if "*" not in groups and action.group not in groups:
        return False
    resources = rule.get("resources") or ()
    named = {"*", action.whole} | ({f"*/{action.subresource}"} if action.subresource else set())
    return not named.isdisjoint(resources) and (not names or action.name in names)


def _covers(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return pattern == path


def _joined(reasons: list[str]) -> str:
    return reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"


def refusal(user: User, action: Action, reason: str = "") -> Refused:
    """The 403 for something that a user may not do."""
    if action.path:
        words = f'User "{user.name}" cannot {action.verb} path "{action.path}"'
        return Refused(403, "Forbidden", f"forbidden: {words}{': ' + reason if reason else ''}", {})
    place = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    words = f'User "{user.name}" cannot {action.verb} resource "{action.whole}" in API group "{action.group}" {place}'
    subject = Subject(action.group, action.resource, "")
    head = f'{subject.resource} "{action.name}"' if action.name else subject.resource
    message = f"{head} is forbidden: {words}{': ' + reason if reason else ''}"
    return Refused(403, "Forbidden", message, subject.details(action.name))
