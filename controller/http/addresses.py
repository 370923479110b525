"""Addresses of pages, as people write them.

Pure.
"""

from dataclasses import dataclass

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


def _plain(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else "" if host in ANYWHERE else host
