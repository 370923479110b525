"""Credentials of login handlers: the classes that handlers return, and the source of access that asks the handlers."""

import asyncio
import base64
import logging
import math
import random
import ssl
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any

from ...client.config.access import TLS, Access, Authentication, Constant, address
from ...client.config.credentials import basic, bearer
from ...client.config.tls import make_context
from ...client.errors import AccessError
from ...runtime import clock
from ...runtime.texts import redacted
from ..errors import LoginError
from ..execution.activities import ActivityError

AnyPath = str | bytes | PathLike[str] | PathLike[bytes]

_PAIRS = {"CA": "ca", "certificate": "certificate", "private key": "private_key"}
"""Certificates and keys that are given as a path or as data, with the first part of their field names."""


@dataclass(frozen=True, kw_only=True, repr=False)
class _Endpoint:
    server: str
    priority: int = 0
    default_namespace: str | None = None
    expiration: datetime | None = None

    def __repr__(self) -> str:
        """Without secrets, and without the logins in URLs."""
        shown = ((one.name, getattr(self, one.name)) for one in fields(self) if one.repr)
        values = (f"{name}={(redacted(value) if isinstance(value, str) else value)!r}" for name, value in shown)
        return f"{type(self).__name__}({', '.join(values)})"


@dataclass(frozen=True, kw_only=True, repr=False)
class ConnectionInfo(_Endpoint):
    """One endpoint with one set of credentials (Kopf's class, field by field).

    Data is PEM, or base64 of PEM, as text or bytes. ValueError: a path together with data of the same certificate or key, or an
    authority together with `insecure`. A naive `expiration` is UTC. Of several the one of the highest `priority` is used.
    """

    ca_path: AnyPath | None = None
    ca_data: str | bytes | None = field(default=None, repr=False)
    insecure: bool | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    scheme: str | None = None
    token: str | None = field(default=None, repr=False)
    certificate_path: AnyPath | None = None
    certificate_data: str | bytes | None = field(default=None, repr=False)
    private_key_path: AnyPath | None = None
    private_key_data: str | bytes | None = field(default=None, repr=False)
    proxy_url: str | None = None
    trust_env: bool = False

    def __post_init__(self) -> None:
        insecure: object = self.insecure
        if isinstance(insecure, str) and insecure:
            # Any text is true in Python, also "false".
            raise ValueError(f"`insecure` of {redacted(self.server)} is a text: expected True, False or None.")
        if insecure and (self.ca_path or self.ca_data):
            raise ValueError(
                f"{redacted(self.server)} has an authority together with `insecure`: expected one of them, since nothing is verified by "
                "the authority then. Leave `insecure` out, or ca_path and ca_data."
            )
        for what, name in _PAIRS.items():
            if getattr(self, f"{name}_path") and getattr(self, f"{name}_data"):
                raise ValueError(
                    f"Both {what} path & data are set. Need only one. Leave {name}_path or {name}_data of "
                    f"{redacted(self.server)} out."
                )

    def as_http_headers(self) -> dict[str, str]:
        """The headers of the login: Basic with a user and a password, else the scheme with the token, else none."""
        if self.username and self.password:
            return dict(basic(self.username, self.password))
        if self.scheme:
            return {"Authorization": f"{self.scheme} {self.token}" if self.token else self.scheme}
        return dict(bearer(self.token)) if self.token else {}

    def as_aiohttp_basic_auth(self) -> None:
        """Deprecated, returns None: basic credentials are among the headers."""
        warnings.warn(
            "as_aiohttp_basic_auth() is deprecated, stop calling it. The basic auth already comes from as_http_headers(). "
            "It gives None.",
            DeprecationWarning,
            stacklevel=2,
        )

    def as_ssl_context(self) -> ssl.SSLContext:
        """A TLS context with the CA and the client certificate; nothing is verified when insecure."""
        return make_context(as_access(self, "the connection info"), Authentication())


@dataclass(frozen=True, kw_only=True, repr=False)
class KubeconfigInfo(ConnectionInfo):
    """A connection with the fields of a kubeconfig that Kopf's class has not."""

    impersonation: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The headers of an impersonation; there may be several groups."""
    tls_server_name: str | None = None

    def as_http_headers(self) -> dict[str, str]:
        """The headers of the login and of the impersonation; of several with one name the last."""
        return {**super().as_http_headers(), **dict(self.impersonation)}


@dataclass(frozen=True, kw_only=True, repr=False)
class AiohttpSession(_Endpoint):
    """A ready `aiohttp.ClientSession` with its own login, used as it is and closed with the operator."""

    aiohttp_session: Any


def as_access(info: ConnectionInfo | AiohttpSession, handler_id: str) -> Access:
    """The client's access for the credentials that a login handler returned."""
    origin = f"login handler {handler_id!r}"
    if isinstance(info, AiohttpSession):
        return Access(
            server=_server(info.server, TLS(), origin),
            default_namespace=info.default_namespace,
            origin=origin,
            session=info.aiohttp_session,
        )
    more = info if isinstance(info, KubeconfigInfo) else KubeconfigInfo(server=info.server)
    login = [header for header in info.as_http_headers().items() if header not in more.impersonation]
    tls = TLS(
        ca_file=_path(info.ca_path),
        ca_data=_pem(info.ca_data),
        certificate_file=_path(info.certificate_path),
        certificate_data=_pem(info.certificate_data),
        key_file=_path(info.private_key_path),
        key_data=_pem(info.private_key_data),
        server_name=more.tls_server_name,
        insecure=bool(info.insecure),
    )
    return Access(
        server=_server(info.server, tls, origin),
        tls=tls,
        credentials=Constant((*login, *more.impersonation)),
        default_namespace=info.default_namespace,
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        origin=origin,
    )


def _server(server: str, tls: TLS, origin: str) -> str:
    try:
        return address(server, tls)
    except ValueError:
        raise AccessError(
            f"The {origin} gave the server {redacted(server)!r}: expected https://HOST[:PORT][/PATH]."
        ) from None


def _path(path: AnyPath | None) -> Path | None:
    return Path(fsdecode(path)) if path else None


def _pem(data: str | bytes | None) -> bytes | None:
    if not data:
        return None
    raw = data.encode("ascii") if isinstance(data, str) else data
    return raw if raw.lstrip().startswith(b"-----BEGIN") else base64.b64decode(raw)


logger = logging.getLogger("kopf.activities.authentication")
"""The logger of the login handlers' lines, named in Kopf's manual: to disable it silences frequent logins."""

PAUSE = 1.5
"""Seconds from the end of a login without usable credentials to the next one: many requests ask again and again."""

Credential = ConnectionInfo | AiohttpSession


class LoginFailed(LoginError, AccessError):
    """The error of requests without a login: for operators Kopf's error, for the client missing credentials."""


class LoginSource:
    """The access that the login handlers give: one of the highest priority that is neither expired nor refused.

    `ask` runs all login handlers and returns their results by handler id. It runs when no usable access is left, once for all
    waiting requests, and at most once in `PAUSE` seconds. The same credentials, returned again after a refusal, are used again:
    the client backs off.
    """

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._known: dict[str, tuple[Credential, Access]] = {}
        self._current: Access | None = None
        # The current or last login, and how many requests wait for its end.
        self._login_task: asyncio.Task[Access] | None = None
        self._waiting = 0
        # The end of the last login that was a repeated one, or failed.
        self._ended_at = -math.inf
        self._asked_before = False

    async def access(self) -> Access:
        """The access in use; asks the handlers when there is none. Raises LoginError when they give nothing usable."""
        current = self._current
        if current is None or self._expired(current):
            current = self._current = self._choose()
        if current is not None:
            return current
        task = self._login_task
        if task is None or (task.done() and not self._is_too_soon):
            task = self._login_task = asyncio.create_task(self._login(), name="login")
        self._waiting += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting -= 1
            if not self._waiting and not task.done():
                # The last waiting request was cancelled.
                task.cancel()
                self._login_task = None

    async def refused(self, access: Access) -> None:
        """Drop an access that the server refused; if no other one is left, the handlers are asked at the next request."""
        others = {key: known for key, known in self._known.items() if known[1] is not access}
        if self._is_too_soon and not any(not self._expired(known) for _, known in others.values()):
            # There is no better one yet.
            return
        self._known = others
        if self._current is access:
            self._current = None

    @property
    def _is_too_soon(self) -> bool:
        return asyncio.get_running_loop().time() - self._ended_at < PAUSE

    def _expired(self, access: Access) -> bool:
        ends = [info.expiration for info, known in self._known.values() if known is access and info.expiration]
        return any((end if end.tzinfo else end.replace(tzinfo=UTC)) <= clock.now() for end in ends)

    def _choose(self) -> Access | None:
        usable = [(info, access) for info, access in self._known.values() if not self._expired(access)]
        top = max((info.priority for info, _ in usable), default=0)
        best = [access for info, access in usable if info.priority == top]
        return random.choice(best) if best else None

    async def _login(self) -> Access:
        again, self._asked_before = self._asked_before, True
        title = "Re-authentication" if again else "Initial authentication"
        logger.info("%s has been initiated.", title)
        try:
            given = await self._ask()
        except ActivityError as exc:
            again = True
            raise LoginFailed(f"{title} has failed: {exc.__cause__ or exc}") from exc
        finally:
            if again:
                self._ended_at = asyncio.get_running_loop().time()
        for handler_id, info in given.items():
            if not isinstance(info, (ConnectionInfo, AiohttpSession)):
                raise ValueError(  # noqa: TRY004 - Kopf's class
                    f"Only ConnectionInfo/AiohttpSession instances are accepted; login handler {handler_id!r} returned "
                    f"{type(info).__name__}."
                )
            self._known[handler_id] = (info, as_access(info, handler_id))
        access = self._current = self._choose()
        if access is None:
            logger.error("%s has failed: no credentials were retrieved from the login handlers.", title)
            raise LoginFailed(
                "Ran out of valid credentials: the login handlers gave none that has not expired. Check what they "
                "return, or remove them to use the kubeconfig or the pod's service account."
            )
        logger.info("%s has finished.", title)
        return access
