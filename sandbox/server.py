"""`Sandbox` is a Kubernetes API server inside the process, for tests, demos and development."""

import asyncio
import base64
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from . import certificates
from .access import Access, AccessSettings
from .api import Api, Door, resource_of
from .builtin import BUILTIN_NAMESPACES, builtin_resources
from .cascades import Cascades
from .faults import Faults, LoggedRequest, RequestLog
from .history import History
from .registry import Registry
from .resources import Resource
from .rights import Rights, User
from .store import Store
from .tokens import Tokens
from .verbs import Call, Target, Verbs
from .watches import Hub
from .wire import Listener, Wire, WireSettings


def _utc_now() -> datetime:
    return datetime.now(tz=UTC)


def _private(path: str, flags: int) -> int:
    """Open a file that nobody else may read, before anything stands in it."""
    found = os.open(path, flags, 0o600)
    if hasattr(os, "fchmod"):  # not on Windows, where the folder's rights hold
        os.fchmod(found, 0o600)
    return found


@dataclass(frozen=True)
class SandboxSettings:
    """What can be set on a sandbox. Times are seconds, sizes are bytes.

    `first_version` is the resourceVersion to count from (the default crosses 9999 -> 10000 soon, so that
    versions compared as text are found out). `window` is how many changes are kept at least; a version
    before them is Expired. `watch_buffer` is what a slow watch client may leave unread before it is cut off.
    With `tokens` or `users`, requests need one of them as bearer token: those of `tokens` may do everything, those
    of `users` (by their tokens) what the roles and bindings in the store allow. With `authorization` requests
    without a token are `system:anonymous`. Tokens of service accounts (TokenRequest) are always known, and
    always held to the rights of their accounts; other than that everybody may do everything by default. `clock` gives aware datetimes.
    With `tls` it serves HTTPS by a certificate made for it (in the kubeconfig): kubectl sends a token over nothing else.
    `managed_fields` keeps `metadata.managedFields` at every write, as the real server does (apply always keeps them).
    """

    first_version: int = 9_950
    window: int = 20_000
    bookmark_interval: float = 60.0
    watch_timeout: float = 1800.0
    watch_buffer: int = 64 * 1024 * 1024
    tokens: frozenset[str] = frozenset()
    users: Mapping[str, User] = field(default_factory=dict)
    authorization: bool = False
    tls: bool = False
    namespaces: Sequence[str] = BUILTIN_NAMESPACES
    managed_fields: bool = True
    clock: Callable[[], datetime] = field(default=_utc_now)


class Sandbox:
    """An embedded API server on a port of the loopback interface.

    `async with Sandbox() as sandbox:` serves at `sandbox.url` until the block ends; port 0 takes a free one.
    Everything lives in memory and on the loop that entered the block. No authentication by default: it is for a
    test, which knows its port and ends with it (`ctl sandbox` asks for a token). All namespaces of a fresh cluster,
    no nodes, nothing runs the pods.

    Requests whose `Host` or `Origin` is neither localhost nor an address of the loopback nor `host` are a 403.
    """

    def __init__(self, port: int = 0, settings: SandboxSettings = SandboxSettings(), host: str = "127.0.0.1") -> None:
        self.settings = settings
        self.host = host
        self.port = port
        self.history = History(settings.first_version, settings.window)
        self.store = Store(self.history)
        self.registry = Registry(builtin_resources())
        self._verbs = Verbs(self.store)
        wiring = WireSettings(self._now, settings.bookmark_interval, settings.watch_timeout)
        self._hub = Hub(self.store, self._now, settings.watch_buffer)
        self._cascades = Cascades(self.store, self.registry, self._verbs, self._hub)
        issuer = Tokens(self.store, secrets.token_bytes(32))
        allowed = AccessSettings(settings.tokens, settings.users, settings.authorization)
        rights = Rights(self.store)
        access = Access(
            allowed, rights, issuer, resource_of(self.registry, {"apiVersion": "v1", "kind": "ServiceAccount"})
        )
        self._api = Api(self.store, self.registry, self._cascades, self._verbs, Door(access, rights, issuer))
        self._api.manages = settings.managed_fields
        self._wire = Wire(self._api, self._hub, wiring)
        self._listener: Listener | None = None
        self._serving = certificates.serving(host) if settings.tls else None
        call = self._call()
        for name in settings.namespaces:
            self._verbs.create(self._target("v1", "Namespace", None), {"metadata": {"name": name}}, call)
        self._cascades.settle(call)

    @property
    def url(self) -> str:
        """The address of the server, without a trailing slash."""
        return f"{'http' if self._serving is None else 'https'}://{self.host}:{self.port}"

    @property
    def faults(self) -> Faults:
        """The hooks that break answers and streams on demand."""
        return self._wire.faults

    @property
    def log(self) -> RequestLog:
        """All recent requests."""
        return self._wire.log

    @property
    def write_log(self) -> list[LoggedRequest]:
        """The recent requests that may have changed something, in order."""
        return self._wire.log.writes()

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return len(self._hub)

    def _call(self) -> Call:
        """What a write from inside the process takes from the world."""
        call = self._wire.call()
        return call if self.settings.managed_fields else replace(call, manager=None)

    def _now(self) -> str:
        """The current second as the API writes it."""
        moment: datetime = self.settings.clock()
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._listener = await self._wire.listen(
            self.host, self.port, None if self._serving is None else self._serving.context
        )
        self.port = self._listener.port
        self._api.address = f"{self.host}:{self.port}"

    async def stop(self) -> None:
        """End all watches and close all connections; harmless when not started."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._hub.end_all()
        # One turn lets the streams write their ends before their connections are closed.
        await asyncio.sleep(0)
        await listener.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def take_tokens(self, tokens: Collection[str], users: Mapping[str, User] | None = None) -> None:
        """From now on take these bearer tokens instead of those of the settings; watches that are open stay."""
        settings = AccessSettings(frozenset(tokens), dict(users or {}), self.settings.authorization)
        self._api.access.settings = settings

    def compact(self, version: int | None = None) -> None:
        """Forget the changes up to a version (default: all): reading from there is answered with 410."""
        self.history.compact(version)

    def kubeconfig(self, path: str | Path, namespace: str = "default") -> Path:
        """Write a kubeconfig for this server, with a token where it takes tokens, and return its path.

        Nobody but the user may read the file, whatever its mode was before. Raises OSError.
        """
        user: dict[str, Any] = {"token": min(self.settings.tokens)} if self.settings.tokens else {}
        context = {"cluster": "sandbox", "user": "sandbox", "namespace": namespace}
        cluster = {"server": self.url}
        if self._serving is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self._serving.authority.encode()).decode()
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "sandbox", "user": user}],
            "contexts": [{"name": "sandbox", "context": context}],
            "current-context": "sandbox",
        }
        target = Path(path)
        with open(target, "w", encoding="utf-8", opener=_private) as file:
            file.write(yaml.safe_dump(found, sort_keys=False))
        return target

    async def load_manifest(self, text: str) -> list[dict[str, Any]]:
        """Create the objects of a YAML text (documents and Lists) in order; returns them as stored.

        Raises `status.Refused` for what the server would refuse.
        """
        documents = [document for document in yaml.safe_load_all(text) if document]
        nested = [document.get("items", [document]) for document in documents]
        return [self.create(item) for items in nested for item in items]

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object as a POST would; returns it as stored, whole. Namespaced kinds fall to `default`."""
        resource = resource_of(self.registry, manifest)
        given = (manifest.get("metadata") or {}).get("namespace") or "default"
        target = Target(resource, given if resource.namespaced else None)
        stored = self._verbs.create(target, manifest, self._call())
        self._cascades.settle(self._call())
        return {"apiVersion": resource.group_version, "kind": resource.kind, **stored.decode()}

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = "default") -> dict[str, Any] | None:
        """One object as stored, whole; None when it does not exist."""
        resource = self._target(api_version, kind, namespace).resource
        stored = self.store.get(resource, namespace if resource.namespaced else None, name)
        if stored is None:
            return None
        return {"apiVersion": resource.group_version, "kind": resource.kind, **stored.decode()}

    def _target(self, api_version: str, kind: str, namespace: str | None) -> Target:
        resource: Resource = resource_of(self.registry, {"apiVersion": api_version, "kind": kind})
        return Target(resource, namespace)
