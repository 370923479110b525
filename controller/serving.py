"""The pages by which a program is watched: /metrics, /livez, /healthz, /readyz, /debug/explain."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field

from ..runtime.metrics import Metrics
from .controller import Explanation
from .httpserver import Answer, HTTPServer, Request

CHECK_TIMEOUT = 5.0
"""Seconds that all checks of one request have together."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a check found. `text` is shown to people whether it is `ok` or not."""

    ok: bool
    text: str = ""


Check = Callable[[], Condition | Awaitable[Condition]]
Explain = Callable[[str], Explanation]


@dataclass(slots=True)
class Pages:
    """What there is to show. Checks are asked at each request and can be added and removed at any time.

    `/readyz` and `/livez` answer 200 when all their checks are ok and 503 otherwise, with a line for each with `?verbose` or when one is not.
    `?exclude=NAME` leaves one out. A check that raises, or takes too long, is not ok. A page without checks is ok.
    `/debug/explain?key=...` asks each controller about a key, or one with `&controller=NAME`.
    """

    metrics: Metrics
    ready: dict[str, Check] = field(default_factory=dict)
    live: dict[str, Check] = field(default_factory=dict)
    explain: dict[str, Explain] = field(default_factory=dict)

    def serve(self, server: HTTPServer) -> None:
        """Put the pages on a server that has not started."""
        server.add("/metrics", self._metrics)
        server.add("/readyz", lambda request: _health(self.ready, request))
        for path in ("/livez", "/healthz"):
            server.add(path, lambda request: _health(self.live, request))
        server.add("/debug/explain", self._explain)

    async def _metrics(self, request: Request) -> Answer:
        body, content_type = self.metrics.expose(request.accept)
        return Answer(body, content_type=content_type)

    async def _explain(self, request: Request) -> Answer:
        key, only = request.query.get("key"), request.query.get("controller")
        if not key:
            return Answer(b"Say which key: /debug/explain?key=NAMESPACE/NAME\n", 400)
        asked = {name: explain for name, explain in self.explain.items() if only in {None, name}}
        if not asked:
            return Answer(f"No controller {only!r}; there are: {', '.join(self.explain) or 'none'}.\n".encode(), 404)
        found = {name: asdict(explain(key)) for name, explain in asked.items()}
        return Answer(json.dumps(found, indent=2).encode() + b"\n", content_type="application/json")


async def _health(checks: Mapping[str, Check], request: Request) -> Answer:
    left = {name: check for name, check in checks.items() if name != request.query.get("exclude")}
    found = dict(zip(left, await asyncio.gather(*map(_ask, left.values())), strict=True))
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
