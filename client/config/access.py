"""The access to one server: its address, its TLS, and the credentials for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ...runtime.texts import redacted


@dataclass(frozen=True, repr=False)
class TLS:
    """How server and client authenticate each other. Data is PEM text as bytes and wins over files, which are read when needed.

    Without a CA the system's certificates are trusted. `server_name` is expected in the server's certificate instead of
    the host of the URL. With `insecure` nothing of the server is verified; a CA beside it raises ValueError, as client-go refuses it.
    """

    ca_file: Path | None = None
    ca_data: bytes | None = None
    certificate_file: Path | None = None
    certificate_data: bytes | None = None
    key_file: Path | None = None
    key_data: bytes | None = None
    server_name: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.insecure and (self.ca_file or self.ca_data):
            raise ValueError(
                "An authority is given together with `insecure`: expected one of them. Leave the other one out."
            )


@dataclass(frozen=True, repr=False)
class Authentication:
    """The headers and the certificate by which one request is authenticated. Equal ones are equally good or bad."""

    headers: tuple[tuple[str, str], ...] = ()
    certificate_data: bytes | None = None
    """A client certificate in PEM that came with the credentials (exec plugins); wins over the one of `TLS`."""
    key_data: bytes | None = None


class Credentials(Protocol):
    """A source of authentications. Called in the loop; several clients on several loops may share one."""

    async def authentication(self, *, period: float) -> Authentication:
        """The authentication to use now. Files are read again after `period` seconds.

        Raises AccessError when there is none.
        """

    async def renew(self, refused: Authentication) -> Authentication:
        """The server refused this authentication: look for another one now. An equal one means that there is none.

        Raises AccessError when the source itself fails.
        """


@dataclass(frozen=True, repr=False)
class Constant:
    """Credentials that never change: nothing, a token, a user with a password, impersonation."""

    headers: tuple[tuple[str, str], ...] = ()
    _authentication: Authentication = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_authentication", Authentication(self.headers))

    async def authentication(self, *, period: float) -> Authentication:
        """The same each time."""
        return self._authentication

    async def renew(self, refused: Authentication) -> Authentication:
        """The same: there is no other."""
        return self._authentication


def address(server: str, tls: TLS) -> str:
    """The URL of a server, without a trailing slash; one without a scheme is https where there is anything of TLS, else http.

    That is client-go's rule. Raises ValueError if it is no address.
    """
    secure = bool(tls.insecure or tls.ca_file or tls.ca_data or tls.certificate_file or tls.certificate_data)
    parts = urlsplit(server if "://" in server else f"{'https' if secure else 'http'}://{server}")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("not a URL of http or https")
    return parts.geturl().rstrip("/")


@dataclass(frozen=True)
class Access:
    """One way to one server."""

    server: str
    """The URL up to and excluding `/api`."""
    tls: TLS = field(default=TLS(), repr=False)
    credentials: Credentials = field(default=Constant(), repr=False)
    default_namespace: str | None = None
    proxy: str | None = field(default=None, repr=False)
    trust_env: bool = False
    """Honour the proxies of the environment, whatever the client's settings say."""
    compression: bool = True
    """Whether long answers may be compressed."""
    origin: str = "the given access"
    """Where this came from, for messages: a context of a file, the pod's account, a login handler."""
    session: Any = field(default=None, repr=False, compare=False)
    """A ready HTTP session to use as it is, for every channel, with whatever login it brings along."""
    loader: "AccessLoader | None" = field(default=None, init=False, repr=False, compare=False)
    """Reads the files anew that this came from; a changed copy (`dataclasses.replace`) has none."""

    @property
    def shown(self) -> str:
        """The URL of the server as people may read it: without a login."""
        return redacted(self.server)

    def __repr__(self) -> str:
        return f"Access({self.shown!r}, origin={self.origin!r})"


class AccessLoader(Protocol):
    """Files that say how to reach a server. May be asked from any thread."""

    @property
    def current(self) -> Access:
        """The access as it was read last."""

    def reload(self) -> Access:
        """Read the files now if they have changed since the last time; gives the current access, the very same if it is as before.

        Called when the current one does not work. Never raises: files that cannot be used are looked at again when they change.
        """


class AccessSource(Protocol):
    """A source of the access where all of it can change, such as login handlers."""

    async def access(self) -> Access:
        """The access to use now; may wait for a login. Called before each request, so it must be cheap.

        Raises whatever a failed login is to the caller; that ends the request and is not retried.
        """

    async def refused(self, access: Access) -> None:
        """The server refused this access, and its credentials have no others: get another access for the next `access()`.

        Giving the same again is fine: the request is repeated a few times, then fails. Called once for many requests that
        were refused together.
        """


@dataclass(frozen=True)
class GivenAccess:
    """A source of one access: the given one, or what its loader has read last."""

    given: Access

    async def access(self) -> Access:
        """The access."""
        loader = self.given.loader
        return self.given if loader is None else loader.current

    async def refused(self, access: Access) -> None:
        """Does nothing: there is no other, and the client has asked the loader already."""
