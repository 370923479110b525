"""Where an operator shows its pages: which addresses were asked for, and which of them are one server."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from ...controller.http.addresses import Address, parse_http

__all__ = ["Address", "Probe", "Site", "parse_http", "parse_liveness", "plan"]


@dataclass(frozen=True, slots=True)
class Probe:
    """Where liveness probes are answered."""

    address: Address
    path: str


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
