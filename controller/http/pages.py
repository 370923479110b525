"""The pages by which a program is watched: /metrics, /livez, /healthz, /readyz, /debug/explain."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...runtime.metrics import Metrics
from .server import Answer, HTTPServer, Page, Request

CHECK_TIMEOUT = 5.0
"""Seconds that all checks of one request have together."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a check found. `text` is shown to people whether it is `ok` or not."""

    ok: bool
    text: str = ""


Check = Callable[[], Condition | Awaitable[Condition]]
Checks = Callable[[], Mapping[str, Condition]]
Explain = Callable[[str], Any]
"""From a key as text to a dataclass. Raises ValueError for what is no key, LookupError for one that is not known."""


@dataclass(slots=True)
class Pages:
    """What there is to show. Checks are asked at each request and can be added and removed at any time.

    `/readyz` and `/livez` answer 200 when all their checks are ok and 503 otherwise, with a line for each with `?verbose` or when one is not.
    `?exclude=NAME` leaves one out. A check that raises, or takes too long, is not ok. A page without checks is ok.
    `several` give checks of readiness whose number changes. `/debug/explain?key=...` asks each controller about a key, or one with
    `&controller=NAME`: 400 for what nobody takes for a key, 404 for a key that nobody knows. `more` are other pages by path.

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
    """For whom the pages below `/debug` are, asked at each request: True for everybody, False for nobody, None for this machine only."""

    def serve(self, server: HTTPServer, *, without: Container[str] = ()) -> None:
        """Put the pages on a server that has not started, but those whose paths are somebody else's."""
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
        async def guarded(request: Request) -> Answer:
            wish = self.debug()
            if wish or (wish is None and request.is_local):
                return await page(request)
            found = (
                "switched off"
                if wish is False
                else "for clients on this machine only (in a pod: by kubectl port-forward)"
            )
            return Answer(
                f"The pages below /debug are {found}; see settings.diagnostics.debug_pages, or --debug-pages of ctl run.\n".encode(),
                403,
            )

        return guarded

    async def _metrics(self, request: Request) -> Answer:
        body, content_type = self.metrics.expose(request.accept)
        return Answer(body, content_type=content_type)

    async def _ready(self, request: Request) -> Answer:
        more = {name: condition for checks in self.several for name, condition in checks().items()}
        return await _health(self.ready, more, request)

    async def _live(self, request: Request) -> Answer:
        return await _health(self.live, {}, request)

    async def _explain(self, request: Request) -> Answer:
        key, only = request.query.get("key"), request.query.get("controller")
        if not key:
            return Answer(f"Say which key: /debug/explain?key={self.example}\n".encode(), 400)
        asked = {name: explain for name, explain in self.explain.items() if only in {None, name}}
        if not asked:
            return Answer(f"No controller {only!r}; there are: {', '.join(self.explain) or 'none'}.\n".encode(), 404)
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
            return Answer(f"{text}\n".encode(), 404 if known else 400)
        return as_json(found)


def as_json(found: Any) -> Answer:
    """An answer that people and programs read."""
    return Answer(json.dumps(found, indent=2, default=str).encode() + b"\n", content_type="application/json")


async def _health(checks: Mapping[str, Check], more: Mapping[str, Condition], request: Request) -> Answer:
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
        return Answer(b"ok")
    return Answer("\n".join([*lines, "ok" if ok else "not ok", ""]).encode(), 200 if ok else 503)


async def _ask(check: Check) -> Condition:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            found = check()
            return found if isinstance(found, Condition) else await found
    except TimeoutError:
        return Condition(ok=False, text=f"no answer within {CHECK_TIMEOUT:g} s")
    except Exception as error:
        return Condition(ok=False, text=repr(error))
