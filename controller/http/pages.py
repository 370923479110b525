"""The pages by which a program is watched: /metrics, /livez, /healthz, /readyz, /debug/explain; and what is explained of a key."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...client.objects import Object
from ...client.resources import Key
from ...informers.informer import Informer
from ...runtime.metrics import Metrics
from ..api.cache import ResourceCache
from ..kernel.controller import Controller
from ..kernel.worker import Explanation
from .server import HTTPServer, Page, PageRequest, PageResponse

CHECK_TIMEOUT = 5.0
"""Seconds that all checks of one request have together."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. `text` is shown to people whether it is `ok` or not."""

    ok: bool
    text: str = ""


Check = Callable[[], CheckResult | Awaitable[CheckResult]]
Checks = Callable[[], Mapping[str, CheckResult]]
Explain = Callable[[str], Any]
"""From a key as text to a dataclass. Raises ValueError for what is no key, LookupError for one that is not known."""


@dataclass(slots=True)
class Pages:
    """What there is to show. Checks are asked at each request and can be added and removed at any time.

    `/readyz` and `/livez` answer 200 when all their checks are ok and 503 otherwise, with a line for each with `?verbose` or when one is not.
    `?exclude=NAME` leaves one out. A check that raises, or takes too long, is not ok. A page without checks is ok.
    `several` give checks of readiness whose number changes. `/debug/explain?key=...` asks each controller about a key, or one with
    `&controller=NAME`: 400 for what is no key, 404 for an unknown key. `more` are other pages by path.

    Pages below `/debug` answer 403 unless `debug` says that they are for everybody (True), or None and the client is on this machine.
    """

    metrics: Metrics
    ready: dict[str, Check] = field(default_factory=dict)
    live: dict[str, Check] = field(default_factory=dict)
    several: list[Checks] = field(default_factory=list)
    explain: dict[str, Explain] = field(default_factory=dict)
    more: dict[str, Page] = field(default_factory=dict)
    example: str = "NAMESPACE/NAME"
    """What a key looks like."""
    debug: Callable[[], bool | None] = lambda: None
    """For which clients the pages below `/debug` are, asked at each request: True for everybody, False for nobody, None for this machine only."""

    def serve(self, server: HTTPServer, *, without: Container[str] = ()) -> None:
        """Put the pages on a server that has not started, except those at the paths in `without`."""
        pages: dict[str, Page] = {
            "/metrics": self._metrics,
            "/readyz": self._ready,
            "/livez": self._live,
            "/healthz": self._live,
            "/debug/explain": self._explain,
            **self.more,
        }
        for path, page in pages.items():
            if path not in without:
                server.add(path, self._guarded(page) if path.startswith("/debug/") else page)

    def _guarded(self, page: Page) -> Page:
        async def guarded(request: PageRequest) -> PageResponse:
            shown = self.debug()
            if shown or (shown is None and request.is_local):
                return await page(request)
            found = (
                "switched off"
                if shown is False
                else "for clients on this machine only (in a pod: by kubectl port-forward)"
            )
            return PageResponse(
                f"The pages below /debug are {found}; see settings.diagnostics.debug_pages, or --debug-pages of ctl run.\n".encode(),
                403,
            )

        return guarded

    async def _metrics(self, request: PageRequest) -> PageResponse:
        body, content_type = self.metrics.expose(request.accept)
        return PageResponse(body, content_type=content_type)

    async def _ready(self, request: PageRequest) -> PageResponse:
        more = {name: condition for checks in self.several for name, condition in checks().items()}
        return await _health(self.ready, more, request)

    async def _live(self, request: PageRequest) -> PageResponse:
        return await _health(self.live, {}, request)

    async def _explain(self, request: PageRequest) -> PageResponse:
        key, only = request.query.get("key"), request.query.get("controller")
        if not key:
            return PageResponse(f"Say which key: /debug/explain?key={self.example}\n".encode(), 400)
        asked = {name: explain for name, explain in self.explain.items() if only in {None, name}}
        if not asked:
            return PageResponse(
                f"No controller {only!r}; there are: {', '.join(self.explain) or 'none'}.\n".encode(), 404
            )
        found: dict[str, Any] = {}
        refusals: list[Exception] = []
        for name, explain in asked.items():
            try:
                found[name] = asdict(explain(key))
            except (ValueError, LookupError) as error:
                refusals.append(error)
        if not found:
            text = "\n".join(dict.fromkeys(str(error.args[0] if error.args else error) for error in refusals))
            known = any(isinstance(error, LookupError) for error in refusals)
            return PageResponse(f"{text}\n".encode(), 404 if known else 400)
        return as_json(found)


def as_json(found: Any) -> PageResponse:
    """An answer that people and programs read."""
    return PageResponse(json.dumps(found, indent=2, default=str).encode() + b"\n", content_type="application/json")


async def _health(checks: Mapping[str, Check], more: Mapping[str, CheckResult], request: PageRequest) -> PageResponse:
    excluded = set(request.query.getall("exclude"))
    left = {name: check for name, check in checks.items() if name not in excluded}
    asked = await asyncio.gather(*map(_ask, left.values()))
    found = dict(zip(left, asked, strict=True))
    found |= {name: condition for name, condition in more.items() if name not in excluded}
    ok = all(condition.ok for condition in found.values())
    lines = [
        f"[{'+' if condition.ok else '-'}]{name} {condition.text or ('ok' if condition.ok else 'failed')}"
        for name, condition in found.items()
    ]
    if ok and "verbose" not in request.query:
        return PageResponse(b"ok")
    return PageResponse("\n".join([*lines, "ok" if ok else "not ok", ""]).encode(), 200 if ok else 503)


async def _ask(check: Check) -> CheckResult:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            found = check()
            return found if isinstance(found, CheckResult) else await found
    except TimeoutError:
        return CheckResult(ok=False, text=f"no answer within {CHECK_TIMEOUT:g} s")
    except Exception as error:
        return CheckResult(ok=False, text=repr(error))


@dataclass(frozen=True, slots=True)
class KeyExplanation(Explanation):
    """Where a key stands, and its object."""

    informer: str = "not started"
    """The state of the informer."""
    uid: str | None = None
    """None: the cache has no such object."""
    cached_version: str | None = None
    """What the watch has delivered."""
    written_version: str | None = None
    """What reconcilers see: later than the cached version if an own write has yet to be delivered."""
    store_version: str | None = None
    """Up to which version of the resource the cache is complete."""
    deleted: bool = False
    """Whether it is marked for deletion."""
    finalizers: list[str] = field(default_factory=list)


def explain(controller: Controller[Any], cache: ResourceCache | None, key: Key) -> KeyExplanation:
    """Ask a controller, and the cache of the resource whose objects it reconciles (None: it has none yet)."""
    told = controller.explain(key)
    if cache is None:
        return KeyExplanation(**_fields(told))
    informer = next((one for one in cache.informers if one.namespace in {None, key.namespace}), None)
    if informer is None:
        return KeyExplanation(**_fields(told), informer="its namespace is not looked at")
    return KeyExplanation(**of_key(told, informer, informer.store.get(key)))


def of_key(told: Explanation, informer: Informer, obj: Object | None) -> dict[str, Any]:
    """What an explanation says of a key and of its object in the cache (None: there is none), by the names of its fields."""
    known = {
        **_fields(told),
        "informer": f"{informer.state}, {len(informer.store)} objects",
        "store_version": informer.store.resource_version,
    }
    if obj is not None:
        metadata, delivered = obj.metadata(), informer.delivered(obj.key)
        known |= {
            "uid": obj.uid,
            "cached_version": None if delivered is None else delivered.resource_version,
            "written_version": obj.resource_version,
            "deleted": metadata.deletion_timestamp is not None,
            "finalizers": list(metadata.finalizers or ()),
        }
    return known


def _fields(told: Explanation) -> dict[str, Any]:
    return {one.name: getattr(told, one.name) for one in fields(told)}
