"""The page on authentication: login handlers, what they give, and how long it lasts."""

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access, Constant
from ctl.client.config.credentials import bearer
from ctl.client.rest import Client
from ctl.handlers.kopf.connections import as_access
from ctl.sandbox import Match, SandboxSettings

from ..handlers.world import KEX, Calls, World, a_world, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

AUTHENTICATION = "kopf.activities.authentication"
START = dt.datetime(2031, 5, 6, 7, tzinfo=dt.UTC)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server that knows its users by tokens."""
    async with a_world(SandboxSettings(tokens=frozenset({"ours", "user"}))) as found:
        yield found


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a cluster nor a configuration of the tester's own."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def noting(calls: Calls, no_surroundings: None, world: World) -> None:
    """A handler that shows whether the operator works."""

    @ctl.on.event(KEX.plural)
    async def event(name: str, **_: Any) -> None:
        calls(name, {})


async def works(world: World, calls: Calls, name: str) -> None:
    """See that an object is noticed."""
    metadata = {"name": name, "namespace": "default"}
    world.sandbox.create({"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": {}})
    await world.until(lambda: calls.count(name))


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_handler_of_either_kind_gives_the_connection(world: World, calls: Calls, kind: str) -> None:
    def connect() -> ctl.ConnectionInfo:
        return ctl.ConnectionInfo(
            server=world.sandbox.url,
            insecure=True,
            scheme="Bearer",
            token="ours",
            default_namespace="default",
            expiration=dt.datetime(2099, 12, 31, 23, 59, 59),  # noqa: DTZ001 - as the page has it
        )

    if kind == "sync":
        ctl.on.login()(lambda **_: connect())
    else:

        @ctl.on.login()
        async def login(**_: Any) -> ctl.ConnectionInfo:
            return connect()

    async with world.running(access=None):
        await works(world, calls, "one")


async def test_handlers_that_know_nothing_are_passed_over(world: World, calls: Calls) -> None:
    @ctl.on.login(id="nothing")
    def nothing(**_: Any) -> None:
        calls("nothing", {})

    @ctl.on.login(id="something")
    def something(**_: Any) -> ctl.ConnectionInfo:
        return ctl.ConnectionInfo(server=world.sandbox.url, token="ours")

    async with world.running(access=None):
        await works(world, calls, "one")
    assert calls.count("nothing") == 1


async def test_attempts_can_be_limited(world: World, calls: Calls) -> None:
    @ctl.on.login(retries=3, backoff=5)
    def login(**_: Any) -> None:
        calls("login", {})
        raise OSError("no way")

    with pytest.raises(ctl.LoginError):
        await world.start(access=None).ended()
    assert calls.names == ["login"] * 3


async def test_without_a_limit_a_login_is_tried_until_it_succeeds(world: World, calls: Calls) -> None:
    @ctl.on.login(backoff=60)
    def login(retry: int, **_: Any) -> ctl.ConnectionInfo:
        calls("login", {})
        if retry < 20:
            raise OSError("not yet")
        return ctl.ConnectionInfo(server=world.sandbox.url, token="ours")

    running = world.start(access=None)
    await world.until(lambda: calls.count("login") == 21, seconds=2000)
    await works(world, calls, "one")
    await running.stop()


async def test_the_rudimentary_functions_can_be_called(
    world: World, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.sandbox.kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(path))

    @ctl.on.login()
    def login(**kwargs: Any) -> ctl.ConnectionInfo | None:
        return ctl.login_with_service_account(**kwargs) or ctl.login_with_kubeconfig(**kwargs)

    async with world.running(access=None):
        await works(world, calls, "one")


@pytest.mark.parametrize("aware", [True, False])
async def test_expired_credentials_are_replaced_before_they_are_refused(
    world: World, calls: Calls, aware: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Times without a zone are UTC."""

    @ctl.on.login()
    async def login(**_: Any) -> ctl.ConnectionInfo:
        number = calls("login", {})
        expiration = START + dt.timedelta(minutes=5 * number)
        return ctl.ConnectionInfo(
            server=world.sandbox.url, token="ours", expiration=expiration if aware else expiration.replace(tzinfo=None)
        )

    caplog.set_level(logging.INFO, AUTHENTICATION)
    async with world.running(access=None):
        for minute in range(20):
            await works(world, calls, f"o{minute}")
            # Requests are made all the time: watches that last need none.
            world.sandbox.faults.cut_watches(Match(user_agent="ctl/"))
            await rest(60)
    assert 3 <= calls.count("login") <= 5
    assert 401 not in [request.code for request in world.sandbox.log]
    assert "Re-authentication has finished." in messages_of(caplog)


async def test_refused_credentials_are_asked_for_anew_and_the_same_again_are_no_end(world: World, calls: Calls) -> None:
    @ctl.on.login()
    def login(**_: Any) -> ctl.ConnectionInfo:
        calls("login", {})
        return ctl.ConnectionInfo(server=world.sandbox.url, token="ours")

    async with world.running(access=None) as running:
        await works(world, calls, "one")
        world.sandbox.take_tokens({"user"})
        world.sandbox.faults.cut_watches(Match(user_agent="ctl/"))
        await rest(600)
        assert not running.task.done()
        # Neither a flood of logins nor silence: one in two or three seconds.
        assert 100 <= calls.count("login") <= 400
        world.sandbox.take_tokens({"user", "ours"})
        await rest(5)
        await works(world, calls, "two")


@pytest.mark.parametrize("seconds", [0, 10])
async def test_many_requests_that_need_a_login_share_one(world: World, calls: Calls, seconds: float) -> None:
    """Also one that comes to nothing: each asks again, and nobody asks the handlers for each of them."""
    token, closed_until = "ours", 0.0

    @ctl.on.login(errors=ctl.ErrorsMode.PERMANENT)
    async def login(**_: Any) -> ctl.ConnectionInfo:
        calls("login", {})
        if asyncio.get_running_loop().time() < closed_until:
            raise OSError("the vault is closed")
        return ctl.ConnectionInfo(server=world.sandbox.url, token=token)

    @ctl.on.update(KEX.plural)
    async def update(patch: ctl.Patch, **_: Any) -> None:
        patch.status["seen"] = True

    user = Client(Access(world.sandbox.url, credentials=Constant(bearer("user"))))
    async with user, world.running(access=None):
        for number in range(100):
            metadata = {"name": f"o{number}", "namespace": "default"}
            world.sandbox.create({"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": {}})
        await rest(5)
        for number in range(100):
            await user.patch(KEX, f"o{number}", "default", {"spec": {"field": number}})
        token, closed_until = "new", asyncio.get_running_loop().time() + seconds
        world.sandbox.take_tokens({"user", "new"})
        world.sandbox.faults.cut_watches(Match(user_agent="ctl/"))
        await rest(60 if seconds else 5)
        objects = await user.list(KEX)
        assert all((obj.body().get("status") or {}).get("seen") for obj in objects)
    assert calls.count("login") <= (10 if seconds else 2)


@pytest.fixture
def silenced() -> Iterator[None]:
    """What the page says to do when credentials live for minutes only."""
    names = (AUTHENTICATION, "kopf._core.engines.activities")
    for name in names:
        logging.getLogger(name).disabled = True
    yield
    for name in names:
        logging.getLogger(name).disabled = False


@pytest.mark.usefixtures("silenced")
async def test_logins_can_be_kept_out_of_the_log(world: World, calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    @ctl.on.login()
    async def login(**_: Any) -> ctl.ConnectionInfo:
        calls("login", {})
        return ctl.ConnectionInfo(server=world.sandbox.url, token="ours")

    with caplog.at_level(logging.INFO):
        async with world.running(access=None):
            await works(world, calls, "one")
    assert calls.count("login") == 1
    assert not [text for text in messages_of(caplog) if "uthentication" in text or "login" in text]


def messages_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_what_is_no_connection_is_refused_with_a_word(world: World) -> None:
    @ctl.on.login(id="login")
    def login(**_: Any) -> Any:
        return {"server": world.sandbox.url}

    with pytest.raises(ValueError, match="login handler 'login' returned dict"):
        await world.start(access=None).ended()


@pytest.mark.parametrize(
    "wrong", [{"ca_path": "a", "ca_data": b"b"}, {"certificate_path": "a", "certificate_data": "b"}], ids=str
)
def test_one_thing_is_given_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"path|data"):
        ctl.ConnectionInfo(server="https://localhost", **wrong)


@pytest.fixture
def impersonating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> Path:
    path = tmp_path / "impersonating"
    path.write_text(
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{world.sandbox.url}', tls-server-name: kubernetes}}}}]\n"
        "users: [{name: u, user: {token: ours, as: them, as-uid: u1, as-groups: [g1, g2], as-user-extra: {why: [x]}}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


async def test_a_login_with_the_kubeconfig_keeps_whom_it_impersonates(
    world: World, calls: Calls, impersonating: Path
) -> None:
    info = ctl.login_with_kubeconfig()
    assert info is not None
    access = as_access(info, "login")
    headers = (await access.credentials.authentication(period=60)).headers
    assert sorted(headers) == [
        ("Authorization", "Bearer ours"),
        ("Impersonate-Extra-why", "x"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-User", "them"),
    ]
    assert access.tls.server_name == "kubernetes"
    assert info.as_http_headers()["Impersonate-User"] == "them"


def test_a_login_with_a_kubeconfig_that_makes_no_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://x', insecure-skip-tls-verify: 'false'}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(ctl.LoginError, match="`insecure-skip-tls-verify` must be true or false"):
        ctl.login_with_kubeconfig()


@pytest.mark.parametrize("text", ["false", "true"])
def test_a_text_says_nothing_about_what_is_secure(text: str) -> None:
    with pytest.raises(ValueError, match="insecure"):
        ctl.ConnectionInfo(server="https://x", insecure=text)  # type: ignore[arg-type]


@pytest.mark.parametrize("authority", [{"ca_path": "/ca.pem"}, {"ca_data": "QUJD"}])
def test_an_authority_and_insecure_together_are_refused(authority: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="an authority together with `insecure`"):
        ctl.ConnectionInfo(server="https://x", insecure=True, **authority)  # type: ignore[arg-type]
    assert ctl.ConnectionInfo(server="https://x", insecure=False, **authority).insecure is False  # type: ignore[arg-type]


def test_a_server_without_a_scheme_is_https_where_there_is_anything_of_tls() -> None:
    assert as_access(ctl.ConnectionInfo(server="host:6443", ca_data="QUJD"), "login").server == "https://host:6443"
    assert as_access(ctl.ConnectionInfo(server="host:6443", insecure=True), "login").server == "https://host:6443"
    assert as_access(ctl.ConnectionInfo(server="host:8080"), "login").server == "http://host:8080"
