"""Reviews of access and tokens are answered without being stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .resources import Resource
from .rights import Action, Rights, User
from .status import Cause, bad_request, invalid, wrong
from .status import Subject as Words
from .tokens import ISSUER

REVIEWS: Final = ("create",)


@dataclass(frozen=True)
class Reviewer:
    """What reviews are answered from: the rights, who asks, and how a token is read (None: not valid)."""

    rights: Rights
    user: User
    read_token: Callable[[str], User | None]


def review(resource: Resource, body: Mapping[str, Any], reviewer: Reviewer) -> dict[str, Any]:
    """The given review with its status filled in. Raises a 400 or a 422 for one that asks nothing."""
    spec = body.get("spec") or {}
    answers: dict[str, Callable[[], dict[str, Any]]] = {
        "SelfSubjectReview": lambda: {"userInfo": reviewer.user.info()},
        "SelfSubjectRulesReview": lambda: _rules(spec, reviewer),
        "SelfSubjectAccessReview": lambda: _access(resource, spec, reviewer.user, reviewer),
        "SubjectAccessReview": lambda: _access(resource, spec, _subject(spec), reviewer),
        "LocalSubjectAccessReview": lambda: _access(resource, spec, _subject(spec), reviewer),
        "TokenReview": lambda: _token(spec, reviewer),
    }
    status = answers[resource.kind]()
    found = {key: value for key, value in body.items() if key not in ("kind", "apiVersion", "status")}
    head = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": {}}
    if resource.kind == "SelfSubjectRulesReview":
        # The namespace that it was asked for is not told again.
        found["spec"] = {}
    return {**head, **found, "status": status}


def _subject(spec: Mapping[str, Any]) -> User | None:
    """The user that a review names, None when it names none."""
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    return User(name, groups, spec.get("uid") or "") if name or groups else None


def _access(resource: Resource, spec: Mapping[str, Any], user: User | None, reviewer: Reviewer) -> dict[str, Any]:
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes: list[Cause] = []
    if (asked is None) is (path is None):
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(wrong("spec", None, message))
    if user is None:
        causes.append(wrong("spec.user", "", "at least one of user or group must be specified"))
    if causes or user is None:
        raise invalid(Words(resource.group, "", ""), "", causes)
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    given = {name: (asked or {}).get(name) or "" for name in names}
    action = Action(path.get("verb") or "", path=path.get("path") or "") if path else Action(**given)
    decision = reviewer.rights.decide(user, action)
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _rules(spec: Mapping[str, Any], reviewer: Reviewer) -> dict[str, Any]:
    namespace = spec.get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, error = reviewer.rights.rules(reviewer.user, namespace)
    return {
        "resourceRules": [dict(rule) for rule in rules if "nonResourceURLs" not in rule],
        "nonResourceRules": [dict(rule) for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    } | ({"evaluationError": error} if error else {})


def _token(spec: Mapping[str, Any], reviewer: Reviewer) -> dict[str, Any]:
    user = reviewer.read_token(str(spec.get("token") or ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.info(), "audiences": [ISSUER]}
