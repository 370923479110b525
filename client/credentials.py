"""Tokens and certificates that change while the process runs."""

import asyncio
import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ..runtime import clock
from .endpoint import Grant
from .errors import AccessError

EXEC_TIMEOUT = 60.0
EXPIRY_MARGIN = timedelta(seconds=10)


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


class ExecPlugin:
    """Credentials from a program, as the `exec` stanza of a kubeconfig says (client.authentication.k8s.io).

    The program runs when there is no grant, when the grant expires, and when the server refuses it. Running it is the work
    of kubernetes_asyncio, which is imported only now, since that costs some 40 MB.
    """

    def __init__(
        self, spec: Mapping[str, Any], *, origin: str, base: Path, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._spec = dict(spec)
        self._origin = origin
        self._headers = headers
        self._grant: Grant | None = None
        self._expires: datetime | None = None
        command = str(self._spec.get("command") or "")
        if "/" in command and not Path(command).is_absolute():
            self._spec["command"] = str(base / command)  # client-go's rule; a bare name is looked for in $PATH

    async def grant(self, *, period: float) -> Grant:
        """The grant that the program gave, until it expires. Raises AccessError when the program fails."""
        if self._grant is None or (self._expires is not None and clock.now() >= self._expires - EXPIRY_MARGIN):
            return await self._run()
        return self._grant

    async def renew(self, refused: Grant) -> Grant:
        """Run the program again."""
        return await self._run()

    async def _run(self) -> Grant:
        from kubernetes_asyncio.config.exec_provider import ExecProvider
        from kubernetes_asyncio.config.kube_config import ConfigNode

        try:
            provider = ExecProvider(ConfigNode("exec", self._spec))
            status = await asyncio.wait_for(provider.run(), EXEC_TIMEOUT)
            self._grant, self._expires = self._interpret(status)
        except Exception as error:  # whatever the plugin or its wrapper raises is one thing to the user: no credentials
            hint = str(self._spec.get("installHint") or "").strip()
            found = f"no answer within {EXEC_TIMEOUT:g} s" if isinstance(error, TimeoutError) else str(error)
            raise AccessError(
                f"The exec plugin {self._spec.get('command')!r} of {self._origin} gave no credentials: {found}. "
                + (hint or "Run the command by hand to see what it needs.")
            ) from error
        return self._grant

    def _interpret(self, status: Mapping[str, Any]) -> tuple[Grant, datetime | None]:
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not token and not (certificate and key):
            raise ValueError(
                f"expected `token`, or `clientCertificateData` with `clientKeyData`, found {sorted(status)}"
            )
        pair = (str(certificate).encode(), str(key).encode()) if certificate and key else (None, None)
        expires = status.get("expirationTimestamp")
        headers = (*(bearer(str(token)) if token else ()), *self._headers)
        return Grant(headers, *pair), clock.parse(str(expires)) if expires else None


class AuthProvider:
    """Credentials from the deprecated `auth-provider` stanza of a kubeconfig (`oidc`, `gcp`).

    The work is done by kubernetes_asyncio, imported only now. It refreshes expired tokens and writes them back to the
    kubeconfig, without which providers that rotate refresh tokens would lock the user out.
    """

    def __init__(self, files: str, context: str, *, origin: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self._files = files
        self._context = context
        self._origin = origin
        self._headers = headers
        self._grant: Grant | None = None
        self._asked: float | None = None

    async def grant(self, *, period: float) -> Grant:
        """The token, checked for its expiry at most `period` seconds ago. Raises AccessError when there is none."""
        if self._grant is None or _is_older(self._asked, period):
            return await self.renew(Grant())
        return self._grant

    async def renew(self, refused: Grant) -> Grant:
        """Ask the provider again."""
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config

        configuration = Configuration()
        try:
            await load_kube_config(self._files, context=self._context, client_configuration=configuration)
            token = configuration.api_key["BearerToken"]
        except Exception as error:  # the provider libraries raise anything; to the user it is one thing: no credentials
            raise AccessError(
                f"The auth-provider of {self._origin} gave no token: {error!r}. Log in again with its own tool."
            ) from error
        self._asked = asyncio.get_running_loop().time()
        self._grant = Grant((("Authorization", str(token)), *self._headers))
        return self._grant


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
