"""Certificates for a server on the loopback, made anew for each server and signed by an authority of its own."""

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_VALID = timedelta(days=365)


@dataclass(frozen=True)
class Serving:
    """What a server needs to serve TLS, and the PEM of the authority that its clients trust it by. Nobody keeps the authority's key."""

    context: ssl.SSLContext
    authority: str


def serving(host: str) -> Serving:
    """A new authority, and a certificate of it for localhost, the loopback and this host."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = serialization.Encoding.PEM
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _signed("ctl sandbox authority", root_key, None, root_key)
    names = dict.fromkeys(["localhost", "127.0.0.1", "::1", host])
    leaf = _signed("ctl sandbox", key, root, root_key, x509.SubjectAlternativeName([_name(name) for name in names]))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    # The library reads files only. The folder is ours alone.
    with tempfile.TemporaryDirectory(prefix="ctl-sandbox-") as folder:
        both = Path(folder) / "server.pem"
        both.write_bytes(leaf.public_bytes(pem) + private)
        context.load_cert_chain(both)
    return Serving(context, root.public_bytes(pem).decode())


def _name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    title: str,
    key: "ec.EllipticCurvePrivateKey",
    issuer: "x509.Certificate | None",
    issuer_key: "ec.EllipticCurvePrivateKey",
    names: "x509.SubjectAlternativeName | None" = None,
) -> "x509.Certificate":
    """A certificate with all that strict clients look for; without an issuer it is an authority that signed itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    now, is_root = datetime.now(UTC), issuer is None
    uses = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    more = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    wanted = {"key_cert_sign", "crl_sign"} if is_root else {"digital_signature"}
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of containers and hosts differ.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=0 if is_root else None), critical=True)
        .add_extension(x509.KeyUsage(**{use: use in wanted for use in (*uses, *more)}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names is not None:
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(names, critical=False).add_extension(server, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
