"""Real handshakes with certificates made for the test."""

import asyncio
import base64
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="making certificates needs the `webhooks` extra")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ctl.client.config.access import TLS, Access, Authentication, Constant
from ctl.client.config.loading import load_access
from ctl.client.errors import AccessError, RequestError, Unauthorized
from ctl.client.rest import Client

from .wireserver import PODS, QUICK, Seen, Wire, pod, serving, status


@dataclass
class Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def make(name: str, issuer: Pair | None = None, *, hosts: tuple[str, ...] = ()) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if hosts:
        names: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


CA = make("authority")
OTHER = make("other authority")
SERVER = make("server", CA, hosts=("127.0.0.1", "kubernetes"))
ELSEWHERE = make("elsewhere", CA, hosts=("kubernetes",))
PERSON = make("me", CA)


def server_context(folder: Path, pair: Pair = SERVER, *, ask: bool = False) -> ssl.SSLContext:
    (folder / "server.pem").write_bytes(pair.pem + pair.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=CA.pem.decode())
    context.load_cert_chain(folder / "server.pem")
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ask:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def who(seen: Seen, wire: Wire) -> None:
    certificate = wire.writer.get_extra_info("peercert") or {}
    subject = dict(item[0] for item in certificate.get("subject", ()))
    await wire.reply(200, pod(subject.get("commonName", "anonymous")))


async def ask(access: Access) -> str:
    async with Client(access, replace(QUICK, error_backoffs=())) as client:
        return (await client.get(PODS, "a", "ns")).name


async def test_a_trusted_server(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CA.pem)
    async with serving(who, server_context(tmp_path)) as server:
        assert await ask(Access(server.url, TLS(ca_data=CA.pem))) == "anonymous"
        assert await ask(Access(server.url, TLS(ca_file=tmp_path / "ca.pem"))) == "anonymous"


async def test_a_server_that_is_not_trusted_is_one_message_and_not_retried(tmp_path: Path) -> None:
    async with serving(who, server_context(tmp_path)) as server:
        for tls in (TLS(ca_data=OTHER.pem), TLS()):
            with pytest.raises(RequestError, match=r"no trusted connection to 127.0.0.1:.*certificate") as caught:
                await ask(Access(server.url, tls, origin="context 'x'"))
            assert not caught.value.retriable
            assert "context 'x'" in str(caught.value)
        assert await ask(Access(server.url, TLS(insecure=True))) == "anonymous"


@pytest.mark.parametrize("authority", [{"ca_file": Path("ca.pem")}, {"ca_data": CA.pem}])
def test_an_authority_that_nothing_is_verified_by_is_refused(authority: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="together with `insecure`"):
        TLS(insecure=True, **authority)


async def test_the_name_in_the_certificate(tmp_path: Path) -> None:
    async with serving(who, server_context(tmp_path, ELSEWHERE)) as server:
        with pytest.raises(RequestError, match="no trusted connection"):
            await ask(Access(server.url, TLS(ca_data=CA.pem)))
        assert await ask(Access(server.url, TLS(ca_data=CA.pem, server_name="kubernetes"))) == "anonymous"


async def test_client_certificates(tmp_path: Path) -> None:
    (tmp_path / "me.pem").write_bytes(PERSON.pem)
    (tmp_path / "me.key").write_bytes(PERSON.key_pem)
    tls = TLS(ca_data=CA.pem)
    async with serving(who, server_context(tmp_path, ask=True)) as server:
        by_file = replace(tls, certificate_file=tmp_path / "me.pem", key_file=tmp_path / "me.key")
        assert await ask(Access(server.url, by_file)) == "me"
        assert await ask(Access(server.url, replace(tls, certificate_data=PERSON.pem, key_data=PERSON.key_pem))) == "me"
        mixed = replace(tls, certificate_data=PERSON.pem, key_file=tmp_path / "me.key")
        assert await ask(Access(server.url, mixed)) == "me"

        class Plugin(Constant):
            async def authentication(self, *, period: float) -> Authentication:
                return Authentication((), PERSON.pem, PERSON.key_pem)

        assert await ask(Access(server.url, tls, credentials=Plugin())) == "me"
        with pytest.raises(RequestError):
            await ask(Access(server.url, tls))


async def test_no_key_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    tls = TLS(ca_data=CA.pem, certificate_data=PERSON.pem, key_data=PERSON.key_pem)
    async with serving(who, server_context(tmp_path, ask=True)) as server:
        assert await ask(Access(server.url, tls)) == "me"
    assert list(folder.iterdir()) == []


async def test_a_rotated_client_certificate_is_picked_up(tmp_path: Path) -> None:
    file = tmp_path / "me.pem"
    file.write_bytes(PERSON.pem + PERSON.key_pem)
    access_tls = TLS(ca_data=CA.pem, certificate_file=file)
    newer = make("newer", CA)

    async def once(seen: Seen, wire: Wire) -> None:
        await who(seen, wire)
        wire.writer.close()  # so that the next request makes a new connection

    async with serving(once, server_context(tmp_path, ask=True)) as server:
        settings = replace(QUICK, credentials_period=0.0)
        async with Client(Access(server.url, access_tls), settings) as client:
            assert (await client.get(PODS, "a", "ns")).name == "me"
            file.write_bytes(newer.pem + newer.key_pem + b"\n")
            assert (await client.get(PODS, "a", "ns")).name == "newer"


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[tuple[int, asyncio.Event, asyncio.Event]]:
    """Pass on what is sent between clients and a port; from `frozen` on nothing that clients send. Gives its own port, `frozen`, and `left`: a client has gone."""
    frozen, left = asyncio.Event(), asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, freezes: bool) -> None:
        while data := await reader.read(65536):
            if not (freezes and frozen.is_set()):
                writer.write(data)

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        answers = asyncio.create_task(pump(from_server, writer, freezes=False))
        try:
            # Who goes before having read everything resets the connection.
            with suppress(ConnectionError):
                await pump(reader, to_server, freezes=True)
            left.set()
        finally:
            answers.cancel()
            for end in (writer, to_server):
                end.close()
                await asyncio.gather(end.wait_closed(), answers, return_exceptions=True)

    listener = await asyncio.start_server(passing, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], frozen, left
    finally:
        listener.close()


@pytest.mark.fast_path("the library's sessions wait for the server's goodbye, up to 30 s")
@pytest.mark.parametrize(
    "ending",
    [
        "a watch that is left",
        "an answer that comes too late",
        "a request that is cancelled",
        "a last answer",
    ],
)
async def test_a_silent_server_does_not_hold_a_connection_that_is_given_up(tmp_path: Path, ending: str) -> None:
    arrived = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        if "watch" in seen.path:
            await wire.begin_stream()
        arrived.set()
        if ending == "a last answer":
            frozen.set()
            await wire.reply(200, {}, Connection="close")
        await wire.until_closed()

    async with (
        serving(behave, server_context(tmp_path)) as server,
        relay(server.port) as (port, frozen, left),
        Client(Access(f"https://127.0.0.1:{port}", TLS(ca_data=CA.pem)), replace(QUICK, error_backoffs=())) as client,
    ):
        if ending == "a watch that is left":
            async with client.watch(PODS):
                await asyncio.wait_for(arrived.wait(), 10)
                frozen.set()
        elif ending == "a last answer":
            await client.request("GET", "/x")
        else:
            late = ending == "an answer that comes too late"
            sent = asyncio.create_task(client.request("GET", "/x", timeout=3 if late else None))
            await asyncio.wait_for(arrived.wait(), 10)
            frozen.set()
            if not late:
                sent.cancel()
            with pytest.raises((RequestError, asyncio.CancelledError)):
                await sent
        # Half of the 30 seconds for which a goodbye would be awaited.
        await asyncio.wait_for(left.wait(), 15)


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        (TLS(ca_data=b"junk"), "certificate authority of context 'x' .inline data. cannot be used"),
        (TLS(ca_data=b"\xff"), "certificate authority of context 'x'"),
        (TLS(ca_file=Path("/nowhere/ca")), "certificate authority of context 'x' ./nowhere/ca. cannot be used"),
        (TLS(certificate_file=Path("/nowhere/c")), "client certificate of context 'x' ./nowhere/c. cannot be used"),
        (TLS(certificate_data=b"junk", key_data=b"junk"), "client certificate of context 'x' .inline data."),
        (TLS(certificate_data=PERSON.pem, key_data=OTHER.key_pem), "client certificate of context 'x'"),
    ],
)
async def test_unusable_certificates_are_one_clear_message(tls: TLS, message: str) -> None:
    with pytest.raises(AccessError, match=message):
        await ask(Access("https://127.0.0.1:1", tls, origin="context 'x'"))


def kubeconfig(path: Path, server: str, cluster: str, user: str = "{}") -> Path:
    path.write_text(
        f"current-context: x\nclusters: [{{name: c, cluster: {{server: '{server}', {cluster}}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
    return path


def base64_of(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


async def test_a_new_authority_in_the_kubeconfig_is_used_by_the_request_that_needs_it(tmp_path: Path) -> None:
    async with serving(who, server_context(tmp_path)) as server:
        path = kubeconfig(tmp_path / "config", server.url, f"certificate-authority-data: {base64_of(OTHER.pem)}")
        async with Client(load_access(path), replace(QUICK, error_backoffs=())) as client:
            with pytest.raises(RequestError, match="no trusted connection"):
                await client.get(PODS, "a", "ns")
            kubeconfig(path, server.url, f"certificate-authority-data: {base64_of(CA.pem)}")
            assert (await client.replace(PODS, pod(), namespace="ns", name="a")).name == "anonymous"


async def test_an_authority_whose_file_was_replaced_is_looked_at_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(OTHER.pem)
    async with serving(who, server_context(tmp_path)) as server:
        path = kubeconfig(tmp_path / "config", server.url, "certificate-authority: ca.pem")
        async with Client(load_access(path), replace(QUICK, error_backoffs=())) as client:
            with pytest.raises(RequestError, match="no trusted connection"):
                await client.get(PODS, "a", "ns")
            (tmp_path / "ca.pem").write_bytes(CA.pem)
            assert (await client.get(PODS, "a", "ns")).name == "anonymous"


async def test_a_new_client_certificate_in_the_kubeconfig_is_used_after_a_401(tmp_path: Path) -> None:
    async def only_me(seen: Seen, wire: Wire) -> None:
        certificate = wire.writer.get_extra_info("peercert") or {}
        subject = dict(item[0] for item in certificate.get("subject", ()))
        is_me = subject.get("commonName") == "me"
        await wire.reply(*(200, pod("me")) if is_me else (401, status(401, "Unauthorized", "Unauthorized")))

    def user(pair: Pair) -> str:
        return f"{{client-certificate-data: {base64_of(pair.pem)}, client-key-data: {base64_of(pair.key_pem)}}}"

    ca = f"certificate-authority-data: {base64_of(CA.pem)}"
    async with serving(only_me, server_context(tmp_path, ask=True)) as server:
        path = kubeconfig(tmp_path / "config", server.url, ca, user(ELSEWHERE))
        async with Client(load_access(path), replace(QUICK, error_backoffs=())) as client:
            with pytest.raises(Unauthorized):
                await client.get(PODS, "a", "ns")
            kubeconfig(path, server.url, ca, user(PERSON))
            assert (await client.get(PODS, "a", "ns")).name == "me"
