"""The API turns a request into an answer: it finds the resource, applies the verb, encodes the outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import yaml

from . import decoding, discovery, openapi, patching, protobuf, reading, rendering, scale, status
from .access import Access, action_of
from .bodies import Reading
from .cascades import Cascades
from .deletion import options_from
from .options import options_of
from .reading import Page, switched_on
from .registry import Registry
from .rendering import JSON, Form
from .resources import Resource
from .reviews import REVIEWS, Reviewer, review
from .rights import ADMIN, Rights, User
from .store import Store
from .tokens import Tokens, no_account
from .verbs import Call, Target, Verbs
from .watches import View

VERSION: Final = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": "v1.37.1",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-09-15T00:00:00Z",
    "goVersion": "go1.26.8",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_HEALTH: Final = frozenset({"/healthz", "/readyz", "/livez", "/healthz/ping", "/readyz/ping", "/livez/ping"})
_BODY_TYPES: Final = (JSON, "application/yaml", protobuf.PROTOBUF)


@dataclass(frozen=True)
class Request:
    """One HTTP request as far as the API looks at it. `query` holds the first value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str]
    accept: str = ""
    content_type: str = JSON
    body: bytes = b""
    user_agent: str = ""
    user: User = ADMIN

    @property
    def watching(self) -> bool:
        """Whether a GET asks for a stream instead of a list."""
        return self.method == "GET" and switched_on(self.query, "watch")


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def escaped(text: str) -> str:
    """A text as it stands inside quotation marks in a header."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def answer_refusal(refused: status.Refused) -> Answer:
    """The answer that a refusal is."""
    headers: dict[str, str] = {}
    if isinstance(refused, status.Unrouted):
        return Answer(refused.code, refused.message.encode(), "text/plain; charset=utf-8")
    if refused.details and "retryAfterSeconds" in refused.details:
        headers["Retry-After"] = str(refused.details["retryAfterSeconds"])
    return Answer(refused.code, msgspec.json.encode(refused.status()), JSON, headers)


def _document(body: Any, content_type: str = JSON) -> Answer:
    if body is None:
        raise status.no_such_path()
    return Answer(200, msgspec.json.encode(body), content_type)


@dataclass(frozen=True)
class Door:
    """Who comes in, what they may do, and what the tokens of service accounts are."""

    access: Access
    rights: Rights
    tokens: Tokens


class Api:
    """The whole server without its wire. `address` is what discovery tells clients to connect to."""

    def __init__(self, store: Store, registry: Registry, cascades: Cascades, verbs: Verbs, door: "Door") -> None:
        self.address = ""
        self.access = door.access
        self._tokens = door.tokens
        self._rights = door.rights
        # Whether managed fields are kept at each write; server-side apply keeps them in any case.
        self.manages = True
        self._store = store
        self._registry = registry
        self._cascades = cascades
        self._verbs = verbs

    def answer(self, request: Request, call: Call) -> Answer | View:
        """The answer, or the view of a watch to be opened. Refusals are raised as `status.Refused`."""
        if request.user is not ADMIN:
            self._rights.check(request.user, action_of(request.method, request.path, request.query))
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2 and parts[1] == "v1":
            return self._resource(request, call, ("", "v1"), parts[2:])
        if parts[:1] == ["apis"] and len(parts) > 3 and self._registry.serves(parts[1], parts[2]):
            return self._resource(request, call, (parts[1], parts[2]), parts[3:])
        if request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return self._fixed(request, parts)

    def _fixed(self, request: Request, parts: list[str]) -> Answer:
        """Discovery, versions, health and OpenAPI."""
        if request.path in _HEALTH:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        match parts:
            case ["version"]:
                return _document(VERSION)
            case ["openapi", "v2"]:
                return _document(openapi.version2(self._registry))
            case ["openapi", "v3"]:
                return _document(openapi.root(self._registry))
            case ["openapi", "v3", *rest]:
                return _document(openapi.version3(self._registry, "/".join(rest)))
            case ["api" | "apis"] if discovery.wants_aggregated(request.accept):
                found = discovery.aggregated(self._registry, core=parts == ["api"])
                return _document(found, discovery.AGGREGATED)
            case ["api"]:
                return _document(discovery.api_versions(self.address))
            case ["apis"]:
                return _document(discovery.api_groups(self._registry))
            case ["apis", group] if self._registry.versions(group):
                head = {"kind": "APIGroup", "apiVersion": "v1"}
                return _document(head | discovery.api_group(self._registry, group))
            case ["api", version]:
                return _document(discovery.api_resources(self._registry, "", version))
            case ["apis", group, version, *_]:
                listed = discovery.api_resources(self._registry, group, version) if len(parts) == 3 else None
                if listed is None:
                    raise self._missing(group)
                return _document(listed)
        raise status.Unrouted

    def _resource(self, request: Request, call: Call, version: tuple[str, str], rest: list[str]) -> Answer | View:
        target = self._target(version, rest)
        verb = _verb(request, target)
        if verb not in target.resource.verbs and target.subresource != "token":
            raise status.method_not_allowed()
        form = rendering.negotiate(request.accept, request.query)
        if target.subresource == "scale":
            return self._scale(request, target, verb, call)
        if target.subresource == "token":
            return self._token(request, target, call)
        if verb in ("list", "watch", "get"):
            return self._read(request, target, verb, (form, call.now))
        call = self._optioned(request, verb, call)
        found = self._write(request, target, verb, (form, call))
        self._cascades.settle(call)
        warnings = tuple(f'299 - "{escaped(text)}"' for text in call.reading.warnings)
        return replace(found, warnings=warnings) if warnings else found

    def _optioned(self, request: Request, verb: str, call: Call) -> Call:
        """The call with the options that the query of a write asks for. Raises a 422."""
        kind = request.content_type.partition(";")[0].strip() if verb == "patch" else ""
        found = options_of(verb, request.query, request.user_agent, kind)
        manager = found.manager if self.manages else None
        how = Reading(found.validation)
        return replace(call, dry_run=found.dry_run, manager=manager, force=found.force, reading=how)

    def _missing(self, group: str) -> status.Refused:
        """The 404 of what a group does not serve: built-in groups answer with a Status, others are no route at all."""
        custom = all(resource.custom for resource in self._registry if resource.group == group)
        return status.Unrouted() if custom else status.no_such_path()

    def _target(self, version: tuple[str, str], rest: list[str]) -> Target:
        """What a path below a group and version is about. Raises a 404."""
        namespace: str | None = None
        if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
        resource = self._registry.find(*version, rest[0])
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            raise self._missing(version[0])
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if subresource and not scale.subresource(resource, subresource):
            raise status.not_found(resource.subject, name) if resource.custom else status.no_such_path()
        if name and resource.namespaced and namespace is None:
            raise status.no_such_path()
        return Target(resource, namespace, name, subresource)

    def _read(self, request: Request, target: Target, verb: str, how: tuple[Form, str]) -> Answer | View:
        form, now = how
        resource = target.resource
        if verb == "get":
            reading.check_reached(self._store, request.query)
            stored = self._store.get(resource, target.namespace, target.name)
            if stored is None:
                raise status.not_found(resource.subject, target.name)
            return Answer(200, rendering.one(resource, stored, form, now))
        selection = reading.selection_of(resource, target.namespace, request.query)
        if verb == "watch":
            reading.check_watch(request.query)
            return View(resource, selection, form)
        page = reading.list_page(self._store, resource, selection, request.query)
        return Answer(200, rendering.page(resource, page, form, now))

    def _scale(self, request: Request, target: Target, verb: str, call: Call) -> Answer:
        """Read or write the replicas of a workload."""
        stored = self._store.get(target.resource, target.namespace, target.name)
        if stored is None:
            raise status.not_found(target.resource.subject, target.name)
        if verb == "get":
            return _document(scale.shown(stored))
        if verb == "patch":
            wanted = scale.patched(stored, request.body, request.content_type)
        elif verb == "update":
            wanted = _body(request, "Scale")
        else:
            raise status.method_not_allowed()
        call = replace(self._optioned(request, verb, call), through="scale")
        change = scale.change(wanted)
        changed = self._verbs.patch(replace(target, subresource=""), change, patching.MERGE_PATCH, call)
        self._cascades.settle(call)
        return _document(scale.shown(changed))

    def _token(self, request: Request, target: Target, call: Call) -> Answer:
        """A token of a service account."""
        if request.method != "POST":
            raise status.method_not_allowed()
        body = _body(request, "TokenRequest")
        account = self._store.get(target.resource, target.namespace, target.name)
        if account is None:
            raise no_account(target.name)
        given = body if isinstance(body, dict) else {}
        return Answer(201, msgspec.json.encode(self._tokens.request(account, given, call.now, call.uid())))

    def _write(self, request: Request, target: Target, verb: str, how: tuple[Form, Call]) -> Answer:
        form, call = how
        resource = target.resource
        if verb == "patch" and request.content_type.partition(";")[0].strip() == patching.APPLY_PATCH:
            config = patching.configuration(request.body)
            stored, new = self._verbs.apply(target, config, replace(call, manager=request.query["fieldManager"]))
            return Answer(201 if new else 200, rendering.one(resource, stored, form, call.now))
        if verb == "patch":
            stored = self._verbs.patch(target, request.body, request.content_type, call)
            return Answer(200, rendering.one(resource, stored, form, call.now))
        if verb in ("delete", "deletecollection"):
            return self._delete(request, target, verb, how)
        body = _body(request, resource.kind)
        if not isinstance(body, dict):
            words = "couldn't get version/kind; json parse error: it is no object"
            raise status.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {words}")
        if resource.verbs == REVIEWS:
            reviewer = Reviewer(self._rights, request.user, lambda token: self.access.known(token, call.now))
            return Answer(201, msgspec.json.encode(review(resource, body, reviewer)))
        if verb == "create":
            stored = self._verbs.create(target, body, call)
            return Answer(201, rendering.one(resource, stored, form, call.now))
        stored, new = self._verbs.replace(target, body, call)
        return Answer(201 if new else 200, rendering.one(resource, stored, form, call.now))

    def _delete(self, request: Request, target: Target, verb: str, how: tuple[Form, Call]) -> Answer:
        form, call = how
        resource = target.resource
        options = options_from(request.query, _body(request, "DeleteOptions") if request.body else None)
        if verb == "delete":
            removed = self._verbs.delete(target, options, call)
            if removed.gone and not resource.traits.returns_deleted:
                done = status.success(resource.subject, target.name, removed.stored.uid)
                return Answer(200, msgspec.json.encode(done))
            return Answer(200, rendering.one(resource, removed.stored, form, call.now))
        selection = reading.selection_of(resource, target.namespace, request.query)
        items = self._store.select(resource, selection)
        for item in items:
            each = replace(target, namespace=item.namespace or None, name=item.name)
            self._verbs.delete(each, options, call)
        return Answer(200, rendering.page(resource, Page(items, self._store.history.current), form, call.now))


def _verb(request: Request, target: Target) -> str:
    """The API verb of a method and path. Raises a 405."""
    named = bool(target.name)
    if request.method in ("GET", "HEAD"):
        if named:
            return "get"
        return "watch" if request.watching else "list"
    verb = {
        ("POST", False): "create",
        ("PUT", True): "update",
        ("PATCH", True): "patch",
        ("DELETE", True): "delete",
        ("DELETE", False): "deletecollection",
    }.get((request.method, named))
    if request.method == "POST" and target.subresource == "token":
        return "create"
    in_all_namespaces = target.resource.namespaced and target.namespace is None
    if verb is None or (in_all_namespaces and verb != "deletecollection" and target.resource.verbs != REVIEWS):
        raise status.method_not_allowed()
    return verb


def _body(request: Request, expected: str) -> Any:
    """The decoded body of a write. Raises a 415 or a 400."""
    kind = decoding.media_type(request.content_type)
    try:
        if kind == JSON:
            return decoding.from_json(request.body)
        if kind == "application/yaml":
            return decoding.from_yaml(request.body)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        words = f"couldn't get version/kind; json parse error: {error}"
        raise status.bad_request(f"the object provided is unrecognized (must be of type {expected}): {words}") from None
    if kind == protobuf.PROTOBUF:
        return protobuf.decode(request.body)
    raise status.unsupported_media_type(_BODY_TYPES)


def resource_of(registry: Registry, manifest: Mapping[str, Any]) -> Resource:
    """The resource of a manifest. Raises a 404 that names what is not served."""
    api_version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
    found = registry.of_kind(api_version, kind)
    if found is None:
        message = f'no matches for kind "{kind}" in version "{api_version}": ensure CRDs are loaded first'
        raise status.Refused(404, "NotFound", message)
    return found
