"""Tokens and certificates that change while the process runs."""

import asyncio
import base64
import concurrent.futures
import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ...runtime import clock
from ..errors import AccessError
from .access import Authentication

VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
MODES: Final = ("Never", "IfAvailable", "Always")
LIMIT: Final = 60.0
"""Seconds that a plugin may take, answers of a person included."""
EXCERPT: Final = 200
"""How many characters of a plugin's output an error has."""
_HIDDEN: Final = "[hidden]"
_SETTINGS = re.compile(
    r"""(?ix) ( (?:token|secret|passw(?:or)?d|credential|key|authorization)s? ["']? \s* [:=] \s* (?:bearer|basic)? \s* ["']? | \b bearer \s+ )
    [^\s"',;]+"""
)
_LONG = re.compile(r"[\w+/=~.-]{20,}")

EXPIRY_MARGIN = timedelta(seconds=10)
PAUSE = timedelta(seconds=1)
"""The least time from a futile attempt to the next: many requests ask again and again while there are no credentials."""


class TokenFile:
    """A bearer token in a file, which may be rotated.

    Without the file the `initial` token is used, if there is one; once read, the last token is kept while the file
    cannot be read (it is being replaced, or the volume is gone for a moment): the server judges it.
    """

    def __init__(self, path: Path, *, initial: str | None = None, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self._path = path
        self._headers = headers
        self._grant = Authentication((*bearer(initial), *headers)) if initial else None
        self._read: float | None = None

    async def authentication(self, *, period: float) -> Authentication:
        """The token of the file as it was at most `period` seconds ago. Raises AccessError when there never was one."""
        if self._grant is None or _is_older(self._read, period):
            return self._reread()
        return self._grant

    async def renew(self, refused: Authentication) -> Authentication:
        """Read the file now."""
        return self._reread()

    def _reread(self) -> Authentication:
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
            self._grant = Authentication((*bearer(token), *self._headers))
        if self._grant is None:
            raise AccessError(f"The token file {self._path} is empty: expected a bearer token.")
        return self._grant


class _Shared:
    """Credentials that are costly to get: one attempt at a time, in a thread, for the callers on all loops; they share a failure too."""

    def __init__(self) -> None:
        self._executor = _OneAtATime()
        self._outcome: Authentication | AccessError | None = None
        # When the last attempt ended, if it was not the first one or failed.
        self._ended: datetime | None = None

    async def _renew(self) -> Authentication:
        """The result of the attempt under way, of a new one, or of the last one if it was a moment ago. Raises AccessError."""
        if self._ended is not None and timedelta() <= clock.now() - self._ended < PAUSE:
            outcome = self._outcome
        else:
            outcome = await asyncio.get_running_loop().run_in_executor(self._executor, self._attempt, self._outcome)
        if not isinstance(outcome, Authentication):
            # A copy: many callers raise it at once.
            raise AccessError(str(outcome)) from outcome
        return outcome

    def _attempt(self, before: Authentication | AccessError | None) -> Authentication | AccessError:
        if self._outcome is not None and self._outcome is not before:
            return self._outcome  # another thread was faster
        try:
            outcome: Authentication | AccessError = self._get()
        except AccessError as error:
            outcome = error
        if before is not None or isinstance(outcome, AccessError):
            self._ended = clock.now()
        self._outcome = outcome
        return outcome

    def _get(self) -> Authentication:
        """Do the work, in a thread. Raises AccessError."""
        raise NotImplementedError


class _OneAtATime(concurrent.futures.Executor):
    """Calls that come while one is under way share its result. Its thread does not keep the process alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flight: concurrent.futures.Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        with self._lock:
            if self._flight is None or self._flight.done():
                self._flight = concurrent.futures.Future()
                # One caller that is cancelled does not cancel the call for the others.
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


@dataclass(frozen=True, repr=False)
class Plugin:
    """The `exec` stanza of a user. A command with a slash is relative to the folder of its kubeconfig."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""

    @classmethod
    def of(cls, spec: Mapping[str, Any], where: str, base: Path) -> "Plugin":
        """Read a stanza. Raises AccessError, which says `where` that is, for what makes no sense."""
        missing = [key for key in ("command", "apiVersion") if not spec.get(key)]
        if missing:
            raise AccessError(f"The exec stanza of {where} lacks {' and '.join(missing)}.")
        command, version = _text(spec, "command", where), _text(spec, "apiVersion", where)
        mode = _text(spec, "interactiveMode", where) or "IfAvailable"
        for key, value, known in (("apiVersion", version, VERSIONS), ("interactiveMode", mode, MODES)):
            if value not in known:
                raise AccessError(
                    f"The exec stanza of {where} has the {key} {value!r}: expected one of {', '.join(known)}."
                )
        args = spec.get("args") or []
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
            raise AccessError(f"The exec stanza of {where} is broken: `args` must be a list of texts.")
        if "/" in command and not Path(command).is_absolute():
            command = str((base / command).absolute())
        hint = _text(spec, "installHint", where).strip()
        return cls(command, version, tuple(args), _variables(spec.get("env"), where), mode, hint)

    def run(self, limit: float, known: Sequence[str] = ()) -> Mapping[str, Any]:
        """Run the program; returns the `status` that it prints.

        Its standard input is empty unless it may ask questions and there is a terminal. After `limit` seconds it is killed together with
        its children. Raises ValueError and OSError, whose messages have none of its secrets; `known` are some of them.
        """
        is_interactive = self._is_interactive()
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": is_interactive}}
        process = subprocess.Popen(  # noqa: S603 - the user's own kubeconfig names it
            [self.command, *self.args],
            env={**os.environ, **dict(self.env), "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            # A program that asks questions stays in the foreground of the terminal.
            start_new_session=not is_interactive,
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _kill(process, group=not is_interactive)
            raise ValueError(f"no answer within {limit:g} s") from None
        if process.returncode != 0:
            said = excerpt((errors or b"").decode(errors="replace"), (*known, *(value for _, value in self.env)))
            raise ValueError(f"it ended with code {process.returncode}" + (f" and said: {said}" if said else ""))
        return self._status(output)

    def _is_interactive(self) -> bool:
        if self.interactive_mode == "Never":
            return False
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self.interactive_mode == "Always" and not has_terminal:
            raise ValueError("its interactiveMode is Always, and there is no terminal")
        return has_terminal

    def _status(self, output: bytes) -> Mapping[str, Any]:
        try:
            found = json.loads(output)
        except ValueError:
            # Without the output, which may hold half of a token.
            raise ValueError(
                f"expected an ExecCredential in JSON, found {len(output)} bytes that are no JSON"
            ) from None
        if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
            raise ValueError("expected an ExecCredential in JSON, found something else")
        if found.get("apiVersion") != self.api_version:
            raise ValueError(
                f"expected an answer of the apiVersion {self.api_version}, found {str(found.get('apiVersion'))[:60]!r}"
            )
        if not isinstance(status := found.get("status"), dict):
            raise ValueError("expected a `status` in its answer, found none")  # noqa: TRY004 - of the answer, not of our caller
        return status


class ExecPlugin(_Shared):
    """Credentials from a program, as the `exec` stanza of a kubeconfig says (client.authentication.k8s.io).

    The program runs at first, when its credentials expire, and when the server refuses them; once at a time, and at most
    once a second where that does not help. After `limit` seconds it is killed.
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

    async def authentication(self, *, period: float) -> Authentication:
        """The credentials that the program gave, until they expire. Raises AccessError when the program fails."""
        outcome, expires = self._outcome, self._expires
        if isinstance(outcome, Authentication) and (expires is None or clock.now() < expires - EXPIRY_MARGIN):
            return outcome
        return await self._renew()

    async def renew(self, refused: Authentication) -> Authentication:
        """Run the program again."""
        return await self._renew()

    def _get(self) -> Authentication:
        plugin = self._plugin
        try:
            grant, self._expires = self._interpret(plugin.run(self._limit, self._known))
        except Exception as error:  # any failure means the same to the user: no credentials
            found = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
            raise AccessError(
                f"The exec plugin {plugin.command!r} of {self._origin} gave no credentials: {found}. "
                + (plugin.install_hint or "Run the command by hand to see what it needs.")
            ) from None
        return grant

    def _interpret(self, status: Mapping[str, Any]) -> tuple[Authentication, datetime | None]:
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not token and not (certificate and key):
            raise ValueError(
                f"expected `token`, or `clientCertificateData` with `clientKeyData`, found {sorted(map(str, status))[:10]}"
            )
        self._known = tuple(str(secret) for secret in (token, key) if secret)
        pair = (str(certificate).encode(), str(key).encode()) if certificate and key else (None, None)
        expires = status.get("expirationTimestamp")
        headers = (*(bearer(str(token)) if token else ()), *self._headers)
        return Authentication(headers, *pair), clock.parse(str(expires)) if expires else None


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

    async def authentication(self, *, period: float) -> Authentication:
        """The token, checked for its expiry at most `period` seconds ago. Raises AccessError when there is none."""
        if not isinstance(self._outcome, Authentication) or _is_older(self._asked, period):
            return await self.renew(Authentication())
        return self._outcome

    async def renew(self, refused: Authentication) -> Authentication:
        """Ask the provider again."""
        grant = await self._renew()
        self._asked = asyncio.get_running_loop().time()
        return grant

    def _get(self) -> Authentication:
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
        except Exception as error:  # the provider libraries raise anything; it all means: no credentials
            raise AccessError(
                f"The auth-provider of {self._origin} gave no token: {type(error).__name__}: {excerpt(str(error))}. "
                "Log in again with its own tool."
            ) from None
        return Authentication((("Authorization", str(token)), *self._headers))


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


def excerpt(text: str, known: Iterable[str] = ()) -> str:
    """The end of a program's output, in one line, without `known` secrets and anything that looks like one."""
    text = " ".join(text.split())
    for secret in known:
        if len(secret) > 3:
            text = text.replace(secret, _HIDDEN)
    text = _SETTINGS.sub(rf"\1{_HIDDEN}", text)
    text = _LONG.sub(lambda match: _HIDDEN if any(map(str.isdigit, match[0])) else match[0], text)
    return text if len(text) <= EXCERPT else f"... {text[-EXCERPT:]}"


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """Kill a program; if it has a process group of its own, its children too."""
    if group and sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=1.0)


def _variables(found: object, where: str) -> tuple[tuple[str, str], ...]:
    items = found or []
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) and isinstance(item.get("value"), str)
        for item in items
    ):
        raise AccessError(
            f"The exec stanza of {where} is broken: `env` must be a list of mappings with `name` and `value`, both texts."
        )
    return tuple((item["name"], item["value"]) for item in items)


def _text(spec: Mapping[str, Any], key: str, where: str) -> str:
    value = spec.get(key)
    if value is not None and not isinstance(value, str):
        raise AccessError(f"The exec stanza of {where} is broken: `{key}` must be a text.")
    return value or ""
