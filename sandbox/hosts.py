"""Whom a server on the loopback answers: a web page that somebody has open reaches it too, by a name that leads to 127.0.0.1."""

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlsplit

from .status import Refused


def refused(header: str, value: str) -> Refused:
    """The 403 for a request that was meant for another server, or comes from a page of another one."""
    words = (
        f"{header} {value!r} is not of this server: use localhost, 127.0.0.1, [::1] or the address that it listens on"
    )
    return Refused(403, "Forbidden", f"forbidden: {words[:300]}", {})


def guard(listening: str) -> Callable[[str, str], None]:
    """A check of the headers Host and Origin (empty: not sent) for a server that was asked to listen on this host.

    It raises a 403. Accepted are localhost, the addresses of the loopback and the host itself; for a server on all
    addresses each of them, but no name: a name may lead anywhere.
    """

    @lru_cache(maxsize=64)
    def is_own(netloc: str) -> bool:
        try:
            host = urlsplit(f"//{netloc}").hostname or ""
        except ValueError:
            return False
        if host in ("localhost", listening.lower()):
            return True
        found, own = _address(host), _address(listening)
        return found is not None and (found.is_loopback or (own is not None and (own.is_unspecified or own == found)))

    def check(host: str, origin: str) -> None:
        if host and not is_own(host):
            raise refused("Host", host)
        if origin and not is_own(origin.partition("://")[2]):
            raise refused("Origin", origin)

    return check


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
