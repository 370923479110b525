"""Where an operator shows its pages: which addresses were asked for, and which of them are one server."""

from dataclasses import dataclass
from urllib.parse import urlsplit

PORT = 8080
"""The port of `auto` in a cluster."""
ANYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 (what people write for it)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; an empty host is every address of the machine, port 0 a free one. `explicit`: somebody asked for it."""

    host: str
    port: int
    explicit: bool = True

    def meets(self, other: "Address") -> bool:
        """Whether the two cannot be served by two servers."""
        if self.port != other.port or self.port == 0:
            return False
        return _plain(self.host) == _plain(other.host) or bool(ANYWHERE & {self.host, other.host})

    def joined(self, other: "Address") -> "Address":
        """The address of one server that serves both."""
        host = self.host if _plain(self.host) == _plain(other.host) else ""
        return Address(host, self.port, self.explicit or other.explicit)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "*"
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Probe:
    """Where liveness probes are answered."""

    address: Address
    path: str


def parse_http(text: str | int | None, *, in_cluster: bool) -> Address | None:
    """Read `[HOST:]PORT`, `auto` (8080 in a cluster, nowhere else), or `off`; None is `off`.

    Raises ValueError with what was expected.
    """
    told = "off" if text is None else str(text).strip()
    if told == "off":
        return None
    if told == "auto":
        return Address("", PORT, explicit=False) if in_cluster else None
    host, _, port = told.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535 or ("[" not in host and ":" in host):
        raise ValueError(
            f"The address of the pages is [HOST:]PORT, such as 8080 or 127.0.0.1:8080, or auto, or off; got {told!r}."
        )
    return Address("" if host == "*" else host.strip("[]"), int(port))


def parse_liveness(url: str | None) -> Probe | None:
    """Read `http://host:port/path`; the host is `localhost` and the port 80 where the URL does not say.

    Raises ValueError for another scheme.
    """
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme != "http":
        raise ValueError(f"Unsupported scheme: {url}; liveness is served as http://HOST:PORT/PATH only.")
    port = 80 if parts.port is None else parts.port
    return Probe(Address(parts.hostname or "localhost", port), parts.path or "/")


def _plain(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else "" if host in ANYWHERE else host


@dataclass(frozen=True, slots=True)
class Site:
    """One server: whether it shows the operator's pages, and at which path it answers liveness probes, if at all."""

    address: Address
    pages: bool = False
    path: str | None = None
    is_early: bool = False
    """Whether it is served before the startup handlers: not if only the default, or Kopf's liveness, asks for it."""

    def __str__(self) -> str:
        told = [
            name for name, there in (("metrics and health", self.pages), ("liveness", self.path is not None)) if there
        ]
        return " and ".join(told).capitalize()


def plan(http: Address | None, probe: Probe | None) -> list[Site]:
    """The servers that are needed: one for both when they cannot be two."""
    if http is not None and probe is not None and http.meets(probe.address):
        return [Site(http.joined(probe.address), pages=True, path=probe.path, is_early=http.explicit)]
    sites = [] if http is None else [Site(http, pages=True, is_early=http.explicit)]
    return sites if probe is None else [*sites, Site(probe.address, path=probe.path)]
