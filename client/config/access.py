"""Where the server is, how it proves itself, and how we do."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ...runtime.texts import redacted


@dataclass(frozen=True, repr=False)
class TLS:
    """How the two sides prove themselves. Data is PEM text as bytes and wins over files, which are read when needed.

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
    """What one request carries to be let in. Equal grants are equally good or bad."""

    headers: tuple[tuple[str, str], ...] = ()
    certificate_data: bytes | None = None
    """A client certificate in PEM that came with the credentials (exec plugins); wins over the one of `TLS`."""
    key_data: bytes | None = None


class Credentials(Protocol):
    """A source of grants. Called from the loop; may be shared by several clients on several loops."""

    async def authentication(self, *, period: float) -> Authentication:
        """The grant to use now. What comes from files is re-read when it is older than `period` seconds.

        Raises AccessError when there is none.
        """
        ...

    async def renew(self, refused: Authentication) -> Authentication:
        """The server refused this grant: look for a better one now. An equal grant means that there is none.

        Raises AccessError when the source itself fails.
        """
        ...


@dataclass(frozen=True, repr=False)
class Constant:
    """Credentials that never change: nothing, a token, a user with a password, impersonation."""

    headers: tuple[tuple[str, str], ...] = ()
    _grant: Authentication = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Make the grant."""
        object.__setattr__(self, "_grant", Authentication(self.headers))

    async def authentication(self, *, period: float) -> Authentication:
        """The same grant each time."""
        return self._grant

    async def renew(self, refused: Authentication) -> Authentication:
        """The same grant: there is nothing else."""
        return self._grant


def address(server: str, tls: TLS) -> str:
    """The URL of a server, without a trailing slash; one without a scheme is https where there is anything of TLS, else http.

    That is client-go's rule. Raises ValueError for what is no address.
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
    """Who read this, and can read it anew; a copy that was changed (`dataclasses.replace`) has none."""

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
        ...

    def reload(self) -> Access:
        """Read the files now if they have changed since the last time; gives the current access, the very same if it is as before.

        Called when the current one does not work. Never raises: files that cannot be used are looked at again when they change.
        """
        ...


class AccessSource(Protocol):
    """Who gives the access when it can change altogether, as login handlers do."""

    async def access(self) -> Access:
        """The access to use now; may wait for a login. Called before each request, so it must be cheap.

        Raises whatever a failed login is to the caller; that ends the request and is not retried.
        """
        ...

    async def refused(self, access: Access) -> None:
        """The server refused this access, and its credentials know no better: have another ready at the next `access`.

        Giving the same again is fine: the request is repeated a few times, then fails. Called once for many requests that
        were refused together.
        """
        ...


@dataclass(frozen=True)
class GivenAccess:
    """The source that has one access, as it was given or as its loader has read it last."""

    given: Access

    async def access(self) -> Access:
        """The one."""
        loader = self.given.loader
        return self.given if loader is None else loader.current

    async def refused(self, access: Access) -> None:
        """There is no other; the client has asked the loader already."""
