"""Access: who a request is from, by its bearer token, and what its user may do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from . import status
from .reading import switched_on
from .resources import Resource
from .rights import ADMIN, ANONYMOUS, AUTHENTICATED, Action, Rights, User
from .tokens import Tokens, looks_issued


class Headers(Protocol):
    """The headers of a request, by name without regard to case."""

    def get(self, name: str, default: str, /) -> str:
        """The first value of a header."""

    def getall(self, name: str, default: list[str], /) -> list[str]:
        """All values of a header."""


@dataclass(frozen=True)
class AccessSettings:
    """Who may come in. `admins` are tokens that may do everything; `users` are users with rights, by their tokens.

    Without any of them and without `authorization` everybody is an administrator, but for the bearers of tokens
    of service accounts. With `authorization` those without a token are `system:anonymous`.
    """

    admins: frozenset[str] = frozenset()
    users: Mapping[str, User] = field(default_factory=dict)
    authorization: bool = False

    @property
    def closed(self) -> bool:
        """Whether strangers are not let in as administrators."""
        return bool(self.admins or self.users or self.authorization)


class Access:
    """The door of a server."""

    def __init__(self, settings: AccessSettings, rights: Rights, tokens: Tokens, accounts: Resource) -> None:
        self.settings = settings
        self._rights = rights
        self._tokens = tokens
        self._accounts = accounts

    def known(self, token: str, now: str) -> User | None:
        """The user of a token, None for an unknown one."""
        if token in self.settings.admins:
            return ADMIN
        named = self.settings.users.get(token)
        if named is not None:
            groups = tuple(dict.fromkeys([*named.groups, AUTHENTICATED]))
            return User(named.name, groups, named.uid, named.extra)
        return self._tokens.user(token, self._accounts, now)

    def user(self, headers: Headers, now: str) -> User:
        """The user of a request by its headers. Raises a 401, or a 403 for one who may not act as another."""
        user = self._bearer(headers.get("Authorization", ""), now)
        return impersonated(self._rights, user, headers) if headers.get("Impersonate-User", "") else user

    def _bearer(self, authorization: str, now: str) -> User:
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if not token:
            if self.settings.authorization:
                return ANONYMOUS
            if self.settings.closed:
                raise status.unauthorized()
            return ADMIN
        found = self.known(token, now)
        if found is not None:
            return found
        if self.settings.closed or looks_issued(token):
            raise status.unauthorized()
        return ADMIN


def impersonated(rights: Rights, user: User, headers: Headers) -> User:
    """The user that a request wants to act as, or the one who asks. Raises a 403 where that is not allowed."""
    name, groups = headers.get("Impersonate-User", ""), headers.getall("Impersonate-Group", [])
    if not name:
        return user
    parts = name.split(":")
    account = parts[:2] == ["system", "serviceaccount"] and len(parts) == 4
    action = Action("impersonate", "", "serviceaccounts", "", parts[2], parts[3]) if account else None
    rights.check(user, action or Action("impersonate", "", "users", name=name))
    for group in groups:
        rights.check(user, Action("impersonate", "", "groups", name=group))
    if account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    known = [] if name == ANONYMOUS.name else [AUTHENTICATED]
    return User(name, tuple(dict.fromkeys([*groups, *known])), headers.get("Impersonate-Uid", ""))


def action_of(method: str, path: str, query: Mapping[str, str]) -> Action:
    """What a request wants to do, whether it is served or not: the real server judges before it looks."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    if not rest:
        verb = {"GET": "get", "HEAD": "head", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}
        return Action(verb.get(method, method.lower()), path=path)
    group = "" if parts[0] == "api" else parts[1]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        # A namespace itself is asked for in that namespace, too.
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    watching = switched_on(query, "watch")
    verb = {
        "GET": "get" if name else "watch" if watching else "list",
        "HEAD": "get" if name else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if name else "deletecollection",
    }
    if not name and method in ("GET", "HEAD"):
        name = _selected(query.get("fieldSelector", ""))
    return Action(verb.get(method, method.lower()), group, rest[0], subresource, namespace, name)


def _selected(fields: str) -> str:
    """The name of the one object that a list or a watch can show: to rules with `resourceNames` it is a request for that object."""
    for term in fields.split(","):
        field, _, value = term.partition("=")
        if field.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""
