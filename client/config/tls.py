"""Makes the TLS context that all connections with one description share."""

import math
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import AccessError
from .access import TLS, Access, Authentication


class Contexts:
    """The newest TLS context, made anew when the description or one of its files changed.

    Files are looked at again `period` seconds after the last look, so that rotated certificates are picked up by new
    connections. Reads small files on the caller's thread.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._key: tuple[TLS, bytes | None, bytes | None] | None = None
        self._stamps: tuple[tuple[int, int], ...] = ()
        self._looked = 0.0
        self._context: ssl.SSLContext | None = None

    def get(self, access: Access, grant: Authentication, now: float) -> ssl.SSLContext:
        """The context for this access and grant. Raises AccessError when its certificates cannot be used."""
        key = (access.tls, grant.certificate_data, grant.key_data)
        fresh = self._context is not None and key == self._key
        if self._context is not None and fresh and now - self._looked < self._period:
            return self._context
        stamps = tuple(_stamp(path) for path in (access.tls.ca_file, access.tls.certificate_file, access.tls.key_file))
        self._looked = now
        if self._context is None or not fresh or stamps != self._stamps:
            self._context = make_context(access, grant)
            self._key, self._stamps = key, stamps
        return self._context

    def look_again(self) -> None:
        """Look at the files at the next call of `get`: a connection has failed."""
        self._looked = -math.inf


def make_context(access: Access, grant: Authentication) -> ssl.SSLContext:
    """Load certificates into a new context. Raises AccessError that names the certificate and where it came from."""
    tls = access.tls
    try:
        ca_data = tls.ca_data.decode("ascii") if tls.ca_data else None
        context = ssl.create_default_context(cafile=None if ca_data else tls.ca_file, cadata=ca_data)
    except (OSError, ValueError) as error:
        raise AccessError(
            f"The certificate authority of {access.origin} ({tls.ca_file or 'inline data'}) cannot be used: {error}. "
            "It must be certificates in PEM form."
        ) from error
    # Authorities made by cluster installers often lack the extensions that Python 3.13 began to insist on; they are
    # trusted explicitly, and no other Kubernetes client asks for more.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        _load_client_certificate(context, tls, grant)
    except (OSError, ValueError) as error:
        raise AccessError(
            f"The client certificate of {access.origin} ({tls.certificate_file or 'inline data'}) cannot be used: "
            f"{error}. It must be a certificate and its unencrypted key in PEM form."
        ) from error
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: TLS, grant: Authentication) -> None:
    if grant.certificate_data is not None:
        tls = TLS(certificate_data=grant.certificate_data, key_data=grant.key_data)
    with (
        _as_file(tls.certificate_data, tls.certificate_file) as certificate,
        _as_file(tls.key_data, tls.key_file) as key,
    ):
        if certificate is not None:
            # With an empty password, an encrypted key is an error, and not a prompt on the terminal.
            context.load_cert_chain(certificate, key, password=lambda: b"")


@contextmanager
def _as_file(data: bytes | None, path: Path | None) -> Iterator[Path | None]:
    """The standard library loads key pairs from files only: inline data is in a temporary file meanwhile, readable by this user only."""
    if data is None:
        yield path
        return
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _stamp(path: Path | None) -> tuple[int, int]:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return (-1, 0)  # loading it raises an error with the reason
    return (found.st_mtime_ns, found.st_size) if found is not None else (0, 0)
