"""Names and passwords in the URLs of servers and proxies reach them, and nothing that people read."""

import base64
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ctl.client.config.access import Access
from ctl.client.config.loading import load_access
from ctl.client.errors import AccessError, from_status
from ctl.client.rest import Client
from ctl.client.watch import WatchOptions
from ctl.handlers.kopf.connections import AiohttpSession, ConnectionInfo, as_access
from ctl.runtime.texts import redacted

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, status

USER, PASSWORD = "us3r-of-the-url", "p4ssword-of-the-url"
LOGIN = f"{USER}:{PASSWORD}@"
ONCE = replace(QUICK, error_backoffs=())
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def with_login(url: str) -> str:
    return url.replace("://", f"://{LOGIN}")


def is_hidden(text: str) -> None:
    assert USER not in text
    assert PASSWORD not in text


def of(error: BaseException) -> str:
    """All that is known of an error, its causes and contexts included."""
    return "".join(traceback.format_exception(error)) + repr(error)


async def test_a_login_in_the_url_of_the_server_is_sent_and_is_not_in_the_metrics() -> None:
    async with serving(replies((200, pod()))) as server, Client(Access(with_login(server.url)), ONCE) as client:
        await client.get(PODS, "a", "ns")
        assert server.seen[0].headers["authorization"] == BASIC
        samples = list(client.metrics.samples())
        assert [sample for sample in samples if f"127.0.0.1:{server.port}" in sample.labels]
        is_hidden(repr(samples))


async def refused(seen: Seen, wire: Wire) -> None:
    await wire.reply(403, status(403, "Forbidden", "no"))


async def unauthorized(seen: Seen, wire: Wire) -> None:
    await wire.reply(401, status(401, "Unauthorized", "no"))


async def failing(seen: Seen, wire: Wire) -> None:
    await wire.reply(500, b"<html>no</html>")


async def cutting(seen: Seen, wire: Wire) -> None:
    wire.cut()


async def circling(seen: Seen, wire: Wire) -> None:
    await wire.reply(302, b"", Location=f"http://{LOGIN}{seen.headers['host']}{seen.path}")


async def away(seen: Seen, wire: Wire) -> None:
    await wire.reply(302, b"", Location=f"ftp://{LOGIN}elsewhere/")


async def silly(seen: Seen, wire: Wire) -> None:
    wire.writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: http://{LOGIN}x\r\n\r\n".encode())


async def no_list(seen: Seen, wire: Wire) -> None:
    await wire.reply(200, {"kind": "Nothing"})


@pytest.mark.parametrize("behave", [refused, unauthorized, failing, cutting, circling, away, no_list])
@pytest.mark.parametrize("verb", ["get", "list", "patch", "watch"])
async def test_no_error_tells_the_login_of_a_server(
    behave: Callable[[Seen, Wire], Awaitable[None]], verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = replace(QUICK, error_backoffs=(0,))
    async with serving(behave) as server, Client(Access(with_login(server.url)), settings) as client:
        try:
            if verb == "watch":
                async with client.watch(PODS, "ns", WatchOptions()) as stream:
                    async for _ in stream:
                        pass
            elif verb == "list":
                await client.list(PODS, "ns")
            elif verb == "patch":
                await client.patch(PODS, "a", "ns", {})
            else:
                await client.get(PODS, "a", "ns")
        except Exception as error:
            is_hidden(of(error))
        is_hidden(repr(list(client.metrics.samples())))
    is_hidden(caplog.text)


@pytest.mark.parametrize("scheme", ["http", "https", "nonsense"])
async def test_no_error_of_a_connection_tells_the_login_of_a_server(unused_port: int, scheme: str) -> None:
    async with Client(Access(f"{scheme}://{LOGIN}127.0.0.1:{unused_port}"), ONCE) as client:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
            await client.get(PODS, "a", "ns")
    is_hidden(of(caught.value))


@pytest.mark.parametrize(
    "proxy", ["http://{login}127.0.0.1:{port}", "socks5://{login}127.0.0.1:1", "{login}127.0.0.1:1"]
)
@pytest.mark.parametrize("server", ["http://cluster.invalid", "https://cluster.invalid"])
async def test_no_error_tells_the_login_of_a_proxy(
    proxy: str, server: str, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def required(seen: Seen, wire: Wire) -> None:
        await wire.reply(407, b"")

    async with serving(required) as refusing:
        for port in (unused_port, refusing.port):
            url = proxy.format(login=LOGIN, port=port)
            monkeypatch.setenv("http_proxy", url)
            monkeypatch.setenv("https_proxy", url)
            for access in (Access(server, proxy=url), Access(server, trust_env=True)):
                async with Client(access, ONCE) as client:
                    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
                        await client.get(PODS, "a", "ns")
                    is_hidden(of(caught.value))
                    is_hidden(repr(list(client.metrics.samples())))


@pytest.mark.parametrize(
    "server", [f"ftp://{LOGIN}host", f"https://{USER}:{PASSWORD}/@host", f"{LOGIN}host:6443", f"http://{LOGIN}:80"]
)
def test_a_kubeconfig_that_is_wrong_is_named_without_its_logins(tmp_path: Path, server: str) -> None:
    document = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": server, "proxy-url": f"ftp://{LOGIN}proxy"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    try:
        found = load_access(path)
    except AccessError as error:
        is_hidden(of(error))
    else:
        is_hidden(repr(found))


def test_what_login_handlers_give_is_not_shown_either() -> None:
    info = ConnectionInfo(server=f"https://{LOGIN}host", proxy_url=f"http://{LOGIN}proxy", token=PASSWORD)
    is_hidden(repr(info))
    assert "https://host" in repr(info)
    is_hidden(repr(AiohttpSession(server=f"https://{LOGIN}host", aiohttp_session=None)))
    is_hidden(repr(as_access(info, "login_fn")))
    with pytest.raises(ValueError, match="ca_path") as caught:
        ConnectionInfo(server=f"https://{LOGIN}host", ca_path="a", ca_data="b")
    is_hidden(of(caught.value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@host:6443/path", "https://host:6443/path"),
        ("https://token@host", "https://host"),
        ("https://user:p@ss@host", "https://host"),
        ("https://user:pa/ss@host", "https://host"),
        ("user:pass@host:6443", "host:6443"),
        (
            "GET https://u:p@host/api/users/a@b: no http://x:y@proxy.",
            "GET https://host/api/users/a@b: no http://proxy.",
        ),
        ("https://host:6443/api/users/a@b?labelSelector=c", "https://host:6443/api/users/a@b?labelSelector=c"),
        ("url='http://u:p@host'", "url='http://host'"),
        ("a@b c:d e: f@g", "a@b c:d e: f@g"),
    ],
)
def test_logins_are_taken_out_of_urls_and_nothing_else(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            'Secret "a" is invalid: data[b]: Invalid value: "c\\"d": no',
            'Secret "a" is invalid: data[b]: Invalid value: ...: no',
        ),
        ('patch: Invalid value: map[string]interface {}{"a":"b"}: no', "patch: Invalid value: ..."),
        ("metadata.name: Required value: name is required", "metadata.name: Required value: name is required"),
        (
            'ReadString: expects " or n, error found in #10 byte of ...|"a":1|...',
            'ReadString: expects " or n, error found in ...',
        ),
    ],
)
def test_values_that_a_server_quotes_of_secrets_are_not_shown(said: str, shown: str) -> None:
    for path, hidden in (
        ("api/v1/namespaces/ns/secrets/a", True),
        ("api/v1/secrets", True),
        ("api/v1/configmaps/a", False),
    ):
        error = from_status(422, {"message": said}, request=f"PATCH https://host/{path}")
        assert error.message == said
        assert str(error) == f"PATCH https://host/{path}: Invalid (422): {shown if hidden else said}"
        assert (said in traceback.format_exception_only(error)[0]) is (not hidden or said == shown)
        assert str(error) in eval(repr(error), {"Invalid": str})


@pytest.mark.parametrize(
    "text", ["a-" * 200_000, "a:" * 200_000, "://" * 200_000, "a:b" * 200_000 + "@", '"\\' * 200_000]
)
def test_long_texts_are_looked_through_once(text: str) -> None:
    # What is quadratic does not end before the time of the test does.
    assert len(redacted(text)) <= len(text)
    error = from_status(422, {"message": f"Invalid value: {text}"}, request="PATCH https://host/api/v1/secrets/a")
    assert str(error).endswith("Invalid value: ...")
