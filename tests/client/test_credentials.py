import asyncio
import base64
import concurrent.futures
import json
import os
import stat
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctl.client.config.access import Access, Authentication, Constant, Credentials
from ctl.client.config.credentials import AuthProvider, ExecPlugin, Plugin, TokenFile, basic, bearer
from ctl.client.errors import AccessError, Unauthorized
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.runtime import clock

from .wireserver import PODS, QUICK, Seen, Server, Wire, pod, serving, status


def logged_in(server: Server, credentials: Credentials) -> Client:
    return Client(Access(server.url, credentials=credentials), QUICK)


def accepting(*tokens: str) -> Any:
    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.headers.get("authorization") in {f"Bearer {token}" for token in tokens}:
            if "watch=true" in seen.path:
                await wire.begin_stream()
                await wire.end_stream()
            else:
                await wire.reply(200, pod())
        else:
            await wire.reply(401, status(401, "Unauthorized", "Unauthorized"))

    return behave


def plugin(folder: Path, *answers: str) -> dict[str, Any]:
    """A program that gives one answer after the other, and the last one for ever."""
    script = folder / "login"
    for index, answer in enumerate(answers):
        (folder / f"answer{index}").write_text(answer)
    script.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, sys\n"
        "folder = pathlib.Path(__file__).parent\n"
        "count = folder / 'count'\n"
        "runs = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(runs + 1))\n"
        "(folder / 'info').write_text(os.environ['KUBERNETES_EXEC_INFO'] + os.environ.get('EXTRA', '') + repr(sys.argv[1:]))\n"
        f"print((folder / f'answer{{min(runs, {len(answers) - 1})}}').read_text())\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "args": ["token", "--for", "x"],
        "env": [{"name": "EXTRA", "value": "more"}],
    }


def executed(spec: dict[str, Any], folder: Path, limit: float = 60.0) -> ExecPlugin:
    return ExecPlugin(Plugin.of(spec, "the user 'u'", folder), origin="the context 'x'", limit=limit)


def program(folder: Path, *lines: str) -> dict[str, Any]:
    """A plugin in Python."""
    script = folder / "login"
    script.write_text("\n".join([f"#!{sys.executable}", "import json, os, pathlib, subprocess, sys, time", *lines]))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}


def lives(pid: str) -> bool:
    """Whether a process has not ended, whoever is to be told of that."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
    return bool(found.strip()) and not found.startswith("Z")


def credential(expires: str | None = None, **fields: str) -> str:
    body = {**fields, **({"expirationTimestamp": expires} if expires else {})}
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": body})


async def test_a_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = TokenFile(file, headers=(("Impersonate-User", "u"),))
    assert await credentials.authentication(period=60) == Authentication((*bearer("one"), ("Impersonate-User", "u")))
    file.write_text("two")
    assert (await credentials.authentication(period=60)).headers[0] == bearer("one")[0]
    assert (await credentials.authentication(period=0)).headers[0] == bearer("two")[0]
    assert (await credentials.authentication(period=60)).headers[0] == bearer("two")[0]


async def test_a_token_file_that_vanishes_keeps_its_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFile(file)
    first = await credentials.authentication(period=0)
    file.write_text("")
    assert await credentials.authentication(period=0) == first
    file.unlink()
    assert await credentials.renew(first) == first


async def test_a_token_file_that_never_was_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"token file .*absent.* cannot be read"):
        await TokenFile(tmp_path / "absent").authentication(period=60)
    (tmp_path / "empty").touch()
    with pytest.raises(AccessError, match="is empty"):
        await TokenFile(tmp_path / "empty").authentication(period=60)
    assert await TokenFile(tmp_path / "absent", initial="x").authentication(period=60) == Authentication(bearer("x"))


async def test_a_rotated_token_is_used_after_a_401_and_the_request_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    tokens = {"old"}

    async def behave(seen: Seen, wire: Wire) -> None:
        await accepting(*tokens)(seen, wire)

    async with serving(behave) as server, logged_in(server, TokenFile(file)) as client:
        await client.get(PODS, "a", "ns")
        file.write_text("new")
        tokens.clear()
        tokens.add("new")
        await client.replace(PODS, pod(), namespace="ns", name="a")
        assert client.metrics.refusals == 1
        async with client.watch(PODS) as stream:
            assert [batch async for batch in stream] == []


async def test_a_rotated_token_is_used_when_a_watch_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with serving(accepting("new")) as server:
        credentials = TokenFile(file)
        await credentials.authentication(period=60)
        file.write_text("new")
        async with logged_in(server, credentials) as client, client.watch(PODS) as stream:
            assert [batch async for batch in stream] == []
    assert len(server.seen) == 2


async def test_one_single_401_with_the_same_credentials_is_survived() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        await accepting(*(["t"] if len(server.seen) > 1 else []))(seen, wire)

    async with serving(behave) as server, logged_in(server, Constant(bearer("t"))) as client:
        await client.get(PODS, "a", "ns")


async def test_a_refused_token_is_one_message_that_names_its_origin() -> None:
    async with serving(accepting("other")) as server:
        access = Access(server.url, credentials=Constant(bearer("t")), origin="context 'dev' of /home/me/config")
        async with Client(access, QUICK) as client:
            with pytest.raises(Unauthorized, match="refused the credentials of context 'dev' of /home/me/config"):
                await client.get(PODS, "a", "ns")
    assert len(server.seen) == 3
    assert "t\n" not in str(access)


async def test_many_refused_requests_renew_once() -> None:
    class Counting:
        renewals = 0
        token = "old"

        async def authentication(self, *, period: float) -> Authentication:
            return Authentication(bearer(self.token))

        async def renew(self, refused: Authentication) -> Authentication:
            self.renewals += 1
            await asyncio.sleep(0)
            self.token = "new"
            return Authentication(bearer(self.token))

    counting = Counting()
    async with serving(accepting("new")) as server, logged_in(server, counting) as client:
        await asyncio.gather(*(client.get(PODS, "a", "ns") for _ in range(20)))
    assert counting.renewals == 1


async def test_a_source_of_ever_new_bad_credentials_is_an_error() -> None:
    class Endless:
        count = 0

        async def authentication(self, *, period: float) -> Authentication:
            return Authentication(bearer(str(self.count)))

        async def renew(self, refused: Authentication) -> Authentication:
            self.count += 1
            return Authentication(bearer(str(self.count)))

    async with (
        serving(accepting("never")) as server,
        logged_in(server, Endless()) as client,
    ):
        with pytest.raises(Unauthorized):
            await client.get(PODS, "a", "ns")
    assert 2 < len(server.seen) < 10


class Logins:
    """What login handlers are to the client: an access that is replaced as a whole."""

    def __init__(self, *accesses: Access) -> None:
        self.accesses = list(accesses)
        self.refusals: list[Access] = []

    async def access(self) -> Access:
        if not self.accesses:
            raise PermissionError("Ran out of valid credentials.")
        return self.accesses[0]

    async def refused(self, access: Access) -> None:
        self.refusals.append(access)
        self.accesses.remove(access)


async def test_a_login_is_asked_again_after_a_401_and_may_lead_to_another_server() -> None:
    async with serving(accepting("new")) as server, serving(accepting()) as former:
        logins = Logins(
            Access(former.url, credentials=Constant(bearer("old"))),
            Access(server.url, credentials=Constant(bearer("new")), default_namespace="dns"),
        )
        async with Client(logins, QUICK) as client:
            assert (await client.get(PODS, "a", "ns")).name == "a"
            await client.access()
            assert client.default_namespace == "dns"
    assert [access.server for access in logins.refusals] == [former.url]


async def test_a_login_that_fails_ends_the_request_with_its_own_error() -> None:
    async with serving(accepting()) as server:
        logins = Logins(Access(server.url, credentials=Constant(bearer("old"))))
        async with Client(logins, QUICK) as client:
            with pytest.raises(PermissionError, match="Ran out"):
                await client.get(PODS, "a", "ns")


async def test_an_exec_plugin_gives_a_token_and_another_after_a_401(tmp_path: Path) -> None:
    spec = plugin(tmp_path, credential(token="one"), credential(token="two"))
    credentials = executed(spec, tmp_path)
    async with serving(accepting("two")) as server, logged_in(server, credentials) as client:
        await client.get(PODS, "a", "ns")
        await client.get(PODS, "a", "ns")
    assert (tmp_path / "count").read_text() == "2"
    info = (tmp_path / "info").read_text()
    assert '"ExecCredential"' in info
    assert info.endswith("more['token', '--for', 'x']")


async def test_an_exec_plugin_runs_again_when_its_token_expires(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    later = (now + timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    spec = plugin(tmp_path, credential(later, token="one"), credential(token="two"))
    credentials = executed(spec, tmp_path)
    with clock.replaced(lambda: now):
        assert await credentials.authentication(period=60) == Authentication(bearer("one"))
    with clock.replaced(lambda: now + timedelta(minutes=4)):
        assert await credentials.authentication(period=60) == Authentication(bearer("one"))
    with clock.replaced(lambda: now + timedelta(minutes=6)):
        assert await credentials.authentication(period=60) == Authentication(bearer("two"))


async def test_an_exec_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    spec = plugin(tmp_path, credential(clientCertificateData="CERT", clientKeyData="KEY"))
    credentials = executed(spec, tmp_path)
    assert await credentials.authentication(period=60) == Authentication((), b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("no json", "no JSON"),
        (credential(), "found \\[\\]"),
        (credential(clientCertificateData="CERT"), "clientKeyData"),
        (credential("some day", token="t"), "some day"),
    ],
)
async def test_an_exec_plugin_that_gives_nothing_useful_is_one_message(answer: str, found: str, tmp_path: Path) -> None:
    credentials = executed(plugin(tmp_path, answer), tmp_path)
    with pytest.raises(AccessError, match=f"exec plugin .*login.* of the context 'x' gave no credentials.*{found}"):
        await credentials.authentication(period=60)


async def test_a_missing_exec_plugin_comes_with_its_install_hint(tmp_path: Path) -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login", "installHint": "brew it"}
    with pytest.raises(AccessError, match=r"no-such-login.*brew it"):
        await executed(spec, tmp_path).authentication(period=60)


def kubeconfig(folder: Path, user: str, current: str = "other") -> str:
    file = folder / "config"
    file.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: {current}\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
    )
    return str(file)


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")  # of the library, on Python 3.12
async def test_an_oidc_token_that_is_still_good_is_used(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 99999999999}').rstrip(b"=").decode()
    file = kubeconfig(tmp_path, f"{{auth-provider: {{name: oidc, config: {{id-token: h.{claims}.s}}}}}}")
    credentials = AuthProvider(file, "x", origin="the context 'x'")
    grant = await credentials.authentication(period=60)
    assert grant == Authentication(bearer(f"h.{claims}.s"))
    assert await credentials.authentication(period=60) is grant
    assert await credentials.renew(grant) == grant


async def test_an_oidc_token_that_cannot_be_refreshed_is_one_message(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "{auth-provider: {name: oidc, config: {client-id: c}}}")
    with pytest.raises(AccessError, match="auth-provider of the context 'x' gave no token"):
        await AuthProvider(file, "x", origin="the context 'x'").authentication(period=60)


async def test_many_requests_after_an_expiry_run_one_plugin(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    spec = plugin(tmp_path, credential("2030-01-01T00:05:00Z", token="one"), credential(token="two"))
    credentials = executed(spec, tmp_path)
    async with serving(accepting("one", "two")) as server, logged_in(server, credentials) as client:
        with clock.replaced(lambda: now):
            await asyncio.gather(*(client.get(PODS, "a", "ns") for _ in range(200)))
        assert (tmp_path / "count").read_text() == "1"
        with clock.replaced(lambda: now + timedelta(minutes=10)):
            await asyncio.gather(*(client.get(PODS, "a", "ns") for _ in range(200)))
    assert (tmp_path / "count").read_text() == "2"


async def test_a_plugin_that_fails_fails_once_for_many_requests(tmp_path: Path) -> None:
    spec = program(
        tmp_path,
        "with open(pathlib.Path(__file__).parent / 'runs', 'a') as file: file.write('x')",
        "time.sleep(0.2)",
        "sys.exit('the vault is closed')",
    )
    credentials = executed(spec, tmp_path)
    async with serving(accepting("one")) as server, logged_in(server, credentials) as client:
        for _ in range(3):
            outcomes = await asyncio.gather(*(client.get(PODS, "a", "ns") for _ in range(50)), return_exceptions=True)
            assert {str(outcome) for outcome in outcomes if isinstance(outcome, AccessError)} == {str(outcomes[0])}
    assert "the vault is closed" in str(outcomes[0])
    assert len((tmp_path / "runs").read_text()) <= 2


def test_two_loops_share_one_run_of_a_plugin_also_while_one_is_blocked(tmp_path: Path) -> None:
    spec = plugin(tmp_path, credential(token="one"))
    credentials = executed(spec, tmp_path)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        grants = list(pool.map(lambda _: asyncio.run(credentials.authentication(period=60)), range(4)))
    assert grants == [Authentication(bearer("one"))] * 4
    assert (tmp_path / "count").read_text() == "1"


async def test_who_waits_no_longer_for_a_plugin_leaves_it_to_the_others(tmp_path: Path) -> None:
    spec = program(tmp_path, "time.sleep(0.3)", f"print({credential(token='one')!r})")
    credentials = executed(spec, tmp_path)
    first, second = (asyncio.create_task(credentials.authentication(period=60)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    assert await second == Authentication(bearer("one"))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups on Windows")
async def test_a_plugin_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    (tmp_path / "login").write_text('#!/bin/sh\nsleep 600 &\necho $$ $! > "${0%/*}/pids"\nsleep 600\n')
    (tmp_path / "login").chmod(0o755)
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}
    with pytest.raises(AccessError, match=r"gave no credentials: no answer within 2 s"):
        await executed(spec, tmp_path, limit=2.0).authentication(period=60)
    assert not any(map(lives, (tmp_path / "pids").read_text().split()))


def test_a_plugin_has_nothing_to_read_unless_it_may_ask_people(tmp_path: Path) -> None:
    """The process that runs it has an input that never ends."""
    program(tmp_path, "sys.stdin.read()", f"print({credential(token='one')!r})")
    code = (
        "import asyncio, pathlib; from ctl.client.config.loading import load_access; "
        "print(asyncio.run(load_access('config').credentials.authentication(period=60)).headers)"
    )
    for mode in ("", ", interactiveMode: Never", ", interactiveMode: IfAvailable"):
        kubeconfig(
            tmp_path, f"{{exec: {{command: ./login, apiVersion: client.authentication.k8s.io/v1{mode}}}}}", current="x"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert "Bearer one" in process.stdout.readline()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals of this kind on Windows")
def test_a_plugin_may_ask_people_at_a_terminal_unless_it_is_told_never_to(tmp_path: Path) -> None:
    program(
        tmp_path,
        "asks = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']['interactive']",
        "answer = sys.stdin.readline().strip()",
        f"print({credential(token='T')!r}.replace('T', f'{{asks}}-{{answer}}'))",
    )
    code = (
        "import asyncio; from ctl.client.config.loading import load_access; "
        "print(asyncio.run(load_access('config').credentials.authentication(period=60)).headers)"
    )
    for mode, expected in (("Always", "True-yes"), ("IfAvailable", "True-yes"), ("Never", "False-")):
        kubeconfig(
            tmp_path,
            f"{{exec: {{command: ./login, apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}}}}}",
            current="x",
        )
        ours, theirs = os.openpty()
        os.write(ours, b"yes\n")
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            stdin=theirs,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        os.close(ours)
        os.close(theirs)
        assert f"Bearer {expected}'" in found.stdout


async def test_a_plugin_that_must_ask_people_needs_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**plugin(tmp_path, credential(token="one")), "interactiveMode": "Always"}
    with (tmp_path / "login").open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        with pytest.raises(AccessError, match="interactiveMode is Always, and there is no terminal"):
            await executed(spec, tmp_path).authentication(period=60)


@pytest.mark.parametrize(
    "said",
    [
        "refused: token=s3cr3t",
        'answer was {"access_token": "s3cr3t", "expires": 5}',
        "Authorization: Bearer s3cr3t",
        "cannot use opensesame",
        "the last one was verysecrettokenwithoutdigits and is over",
        "Zm9v.YmFyYmF6cXV4MTIzNDU2Nzg5MA.c2lnbmF0dXJl is no token",
        "x" * 5000,
    ],
)
async def test_what_a_plugin_says_is_cut_and_shows_no_secret(said: str, tmp_path: Path) -> None:
    spec = program(
        tmp_path,
        "runs = pathlib.Path(__file__).with_name('runs')",
        "if runs.exists():",
        f"    sys.exit({said!r})",
        "runs.touch()",
        f"print({credential(token='verysecrettokenwithoutdigits')!r})",
    )
    spec["env"] = [{"name": "PASSWORD", "value": "opensesame"}]
    credentials = executed(spec, tmp_path)
    grant = await credentials.authentication(period=60)
    with pytest.raises(AccessError, match="it ended with code 1 and said: ") as caught:
        await credentials.renew(grant)
    text = "".join(traceback.format_exception(caught.value))
    for secret in ("s3cr3t", "opensesame", "verysecrettokenwithoutdigits", "YmFyYmF6cXV4MTIzNDU2Nzg5MA"):
        assert secret not in str(caught.value)
        assert secret not in text
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("answer", ["s3cr3t", '{"kind": "ExecCredential", "status": {"token": "s3cr3t"'])
async def test_an_answer_that_cannot_be_read_is_not_shown(answer: str, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="bytes that are no JSON") as caught:
        await executed(plugin(tmp_path, answer), tmp_path).authentication(period=60)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library
async def test_many_requests_refresh_an_oidc_token_once(tmp_path: Path) -> None:
    """A refresh token is good for one refresh: the second one locks its user out."""
    current = "r0"

    def token(expires: int) -> str:
        claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).rstrip(b"=").decode()
        return f"h.{claims}.s"

    async def provider(seen: Seen, wire: Wire) -> None:
        nonlocal current
        if seen.method == "GET":
            await wire.reply(200, {"token_endpoint": f"{server.url}/token"})
        elif f"refresh_token={current}".encode() in seen.body:
            current = f"r{int(current[1:]) + 1}"
            await wire.reply(200, {"id_token": token(99999999999), "refresh_token": current})
        else:
            current = "none any more"
            await wire.reply(400, {"error": "invalid_grant"})

    async with serving(provider) as server:
        config = f"{{client-id: c, client-secret: s, idp-issuer-url: '{server.url}', refresh-token: r0, id-token: {token(1)}}}"
        credentials = AuthProvider(
            kubeconfig(tmp_path, f"{{auth-provider: {{name: oidc, config: {config}}}}}"), "x", origin="the context 'x'"
        )
        grants = await asyncio.gather(*(credentials.authentication(period=60) for _ in range(50)))
    assert {grant.headers for grant in grants} == {bearer(token(99999999999))}
    assert current == "r1"
    assert "refresh-token: r1" in (tmp_path / "config").read_text(), "who logs in next needs it"


def test_a_user_with_a_password() -> None:
    assert basic("me", "pä:ss") == (("Authorization", "Basic bWU6cMOkOnNz"),)


def test_secrets_do_not_show() -> None:
    assert "secret" not in repr(Access("http://x", credentials=Constant(bearer("secret"))))
    assert "secret" not in repr(Authentication(bearer("secret")))


def test_the_library_for_plugins_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, ctl.client.rest, ctl.client.config.loading; print('kubernetes_asyncio' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ)
    )
    assert result.stdout.strip() == "False"


def test_defaults() -> None:
    settings = ClientSettings()
    assert (settings.request_timeout, settings.connections, settings.qps) == (300.0, 32, None)
    assert tuple(settings.backoffs()) == (1, 1, 2, 3, 5, 8, 13, 21)
