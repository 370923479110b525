"""Tokens and certificates that change while the process runs."""

import asyncio
import base64
import concurrent.futures
import functools
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...runtime import clock
from ..errors import AccessError
from .endpoint import Grant
from .plugins import LIMIT, Plugin, excerpt

EXPIRY_MARGIN = timedelta(seconds=10)
PAUSE = timedelta(seconds=1)
"""From one attempt to the next, where the last did not help: many ask, again and again, while nothing is to be had."""


class TokenFile:
    """A bearer token in a file that somebody rotates.

    Without the file the `initial` token is used, if there is one; once read, the last token is kept while the file
    cannot be read (it is being replaced, or the volume is gone for a moment): the server judges it.
    """

    def __init__(self, path: Path, *, initial: str | None = None, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self._path = path
        self._headers = headers
        self._grant = Grant((*bearer(initial), *headers)) if initial else None
        self._read: float | None = None

    async def grant(self, *, period: float) -> Grant:
        """The token of the file as it was at most `period` seconds ago. Raises AccessError when there never was one."""
        if self._grant is None or _is_older(self._read, period):
            return self._reread()
        return self._grant

    async def renew(self, refused: Grant) -> Grant:
        """Read the file now."""
        return self._reread()

    def _reread(self) -> Grant:
        self._read = asyncio.get_running_loop().time()
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            if self._grant is None:
                raise AccessError(
                    f"The token file {self._path} cannot be read: {error}. Create it, or use another login."
                ) from error
            return self._grant
        if token:
            self._grant = Grant((*bearer(token), *self._headers))
        if self._grant is None:
            raise AccessError(f"The token file {self._path} is empty: expected a bearer token.")
        return self._grant


class _Shared:
    """A grant that is costly to get: one attempt at a time, in a thread, for all who wait on all loops; they share a failure too."""

    def __init__(self) -> None:
        self._executor = _OneAtATime()
        self._outcome: Grant | AccessError | None = None
        # When the last attempt has ended that was a second one, or came to nothing.
        self._ended: datetime | None = None

    async def _renew(self) -> Grant:
        """The grant of an attempt under way, of a new one, or, if it was made a moment ago, of the last one. Raises AccessError."""
        if self._ended is not None and timedelta() <= clock.now() - self._ended < PAUSE:
            outcome = self._outcome
        else:
            outcome = await asyncio.get_running_loop().run_in_executor(self._executor, self._attempt, self._outcome)
        if not isinstance(outcome, Grant):
            # A copy: many raise it at once.
            raise AccessError(str(outcome)) from outcome
        return outcome

    def _attempt(self, before: Grant | AccessError | None) -> Grant | AccessError:
        if self._outcome is not None and self._outcome is not before:
            return self._outcome  # somebody was faster
        try:
            outcome: Grant | AccessError = self._get()
        except AccessError as error:
            outcome = error
        if before is not None or isinstance(outcome, AccessError):
            self._ended = clock.now()
        self._outcome = outcome
        return outcome

    def _get(self) -> Grant:
        """Do the work, in a thread. Raises AccessError."""
        raise NotImplementedError


class _OneAtATime(concurrent.futures.Executor):
    """Whoever comes while a call is under way gets what that one gives. No thread of it keeps the process from its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: concurrent.futures.Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        with self._lock:
            if self._flight is None or self._flight.done():
                self._flight = concurrent.futures.Future()
                # What is under way is not cancelled by one of those who wait for it.
                self._flight.set_running_or_notify_cancel()
                work = functools.partial(self._fly, self._flight, functools.partial(fn, *args, **kwargs))
                threading.Thread(target=work, name="credentials", daemon=True).start()
            return self._flight

    @staticmethod
    def _fly(flight: concurrent.futures.Future[Any], work: Callable[[], Any]) -> None:
        try:
            result = work()
        except BaseException as error:
            flight.set_exception(error)
        else:
            flight.set_result(result)


class ExecPlugin(_Shared):
    """Credentials from a program, as the `exec` stanza of a kubeconfig says (client.authentication.k8s.io).

    The program runs when there is no grant, when the grant expires, and when the server refuses it; once at a time, and not
    more often than once a second where that does not help. After `limit` seconds it is killed.
    """

    def __init__(
        self, plugin: Plugin, *, origin: str, headers: tuple[tuple[str, str], ...] = (), limit: float = LIMIT
    ) -> None:
        super().__init__()
        self._plugin = plugin
        self._origin = origin
        self._headers = headers
        self._limit = limit
        self._expires: datetime | None = None
        self._known: tuple[str, ...] = ()

    async def grant(self, *, period: float) -> Grant:
        """The grant that the program gave, until it expires. Raises AccessError when the program fails."""
        outcome, expires = self._outcome, self._expires
        if isinstance(outcome, Grant) and (expires is None or clock.now() < expires - EXPIRY_MARGIN):
            return outcome
        return await self._renew()

    async def renew(self, refused: Grant) -> Grant:
        """Run the program again."""
        return await self._renew()

    def _get(self) -> Grant:
        plugin = self._plugin
        try:
            grant, self._expires = self._interpret(plugin.run(self._limit, self._known))
        except Exception as error:  # whatever it is, it is one thing to the user: no credentials
            found = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
            raise AccessError(
                f"The exec plugin {plugin.command!r} of {self._origin} gave no credentials: {found}. "
                + (plugin.install_hint or "Run the command by hand to see what it needs.")
            ) from None
        return grant

    def _interpret(self, status: Mapping[str, Any]) -> tuple[Grant, datetime | None]:
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not token and not (certificate and key):
            raise ValueError(
                f"expected `token`, or `clientCertificateData` with `clientKeyData`, found {sorted(map(str, status))[:10]}"
            )
        self._known = tuple(str(secret) for secret in (token, key) if secret)
        pair = (str(certificate).encode(), str(key).encode()) if certificate and key else (None, None)
        expires = status.get("expirationTimestamp")
        headers = (*(bearer(str(token)) if token else ()), *self._headers)
        return Grant(headers, *pair), clock.parse(str(expires)) if expires else None


class AuthProvider(_Shared):
    """Credentials from the deprecated `auth-provider` stanza of a kubeconfig (`oidc`, `gcp`).

    The work is done by kubernetes_asyncio, imported only now, in a thread. It refreshes expired tokens and writes them back to the
    kubeconfig, without which providers that rotate refresh tokens would lock the user out; so it is done once at a time.
    """

    def __init__(self, files: str, context: str, *, origin: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__()
        self._files = files
        self._context = context
        self._origin = origin
        self._headers = headers
        self._asked: float | None = None

    async def grant(self, *, period: float) -> Grant:
        """The token, checked for its expiry at most `period` seconds ago. Raises AccessError when there is none."""
        if not isinstance(self._outcome, Grant) or _is_older(self._asked, period):
            return await self.renew(Grant())
        return self._outcome

    async def renew(self, refused: Grant) -> Grant:
        """Ask the provider again."""
        grant = await self._renew()
        self._asked = asyncio.get_running_loop().time()
        return grant

    def _get(self) -> Grant:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

        configuration = Configuration()
        try:
            files = KubeConfigMerger(self._files)
            # The library's own way to write the file back fails (36.1): it is called with more than it takes.
            loader = KubeConfigLoader(
                files.config, active_context=self._context, config_persister=lambda *_: files.save_changes()
            )
            asyncio.run(loader.load_and_set(configuration))
            token = configuration.api_key["BearerToken"]
        except Exception as error:  # the provider libraries raise anything; to the user it is one thing: no credentials
            raise AccessError(
                f"The auth-provider of {self._origin} gave no token: {type(error).__name__}: {excerpt(str(error))}. "
                "Log in again with its own tool."
            ) from None
        return Grant((("Authorization", str(token)), *self._headers))


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """The headers of a bearer token."""
    return (("Authorization", f"Bearer {token}"),)


def basic(username: str, password: str) -> tuple[tuple[str, str], ...]:
    """The headers of a user with a password (RFC 7617, in UTF-8)."""
    secret = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
    return (("Authorization", f"Basic {secret}"),)


def _is_older(moment: float | None, period: float) -> bool:
    # Clocks of several loops may differ in tests; a moment in the future is as good as none.
    return moment is None or not 0 <= asyncio.get_running_loop().time() - moment < period
