"""`ctl run`, as a process against a sandbox of the test's own, and what it says when something is wrong."""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from ctl.client.config.loading import load_access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.sandbox import Sandbox, SandboxSettings

from ..ports import free_port
from .processes import PATIENCE, command

CRD = Path(__file__).parents[2] / "examples" / "01-minimal" / "crd.yaml"
EXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", namespaced=True)
BODY = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one"}, "spec": {"field": "value"}}
HANDLER = """
import MODULE

@MODULE.on.create("kopfexamples")
def create_fn(name, logger, **_):
    logger.info("created by a handler")
    return {"hello": name}
"""


def operator(folder: Path, module: str = "ctl") -> Path:
    path = folder / "main.py"
    path.write_text(HANDLER.replace("MODULE", module))
    return path


HANDLED = "kopf.zalando.org/last-handled-configuration"


async def handled(kubeconfig: Path, namespace: str = "default") -> dict[str, Any]:
    """Create an object and wait until it is handled: the diff-base is the last that is written."""
    async with Client(load_access(kubeconfig)) as client, asyncio.timeout(PATIENCE):
        await client.create(EXAMPLES, BODY, namespace)
        return await _until(client, namespace, lambda body: HANDLED in body["metadata"].get("annotations", {}))


async def _until(client: Client, namespace: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while True:
        body = (await client.get(EXAMPLES, "one", namespace)).body()
        if reached(body):
            return body
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("module", ["ctl", "kopf"])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_an_operator_runs_until_it_is_told_to_stop(
    module: str, signum: signal.Signals, kubeconfig: Path, tmp_path: Path
) -> None:
    async with command("run", "-A", "--kubeconfig", kubeconfig, operator(tmp_path, module)) as run:
        body = await handled(kubeconfig)
        assert body["status"] == {"create_fn": {"hello": "one"}}
        assert HANDLED in body["metadata"]["annotations"]
        await run.line("[default/one] created by a handler")
        assert await run.end(signum) == 0
    assert "Traceback" not in run.output


async def test_the_embedded_server_needs_nothing_else(tmp_path: Path) -> None:
    async with command("run", "--sandbox", "--manifest", CRD, operator(tmp_path)) as run:
        kubeconfig = await run.kubeconfig()
        assert (await handled(kubeconfig))["status"] == {"create_fn": {"hello": "one"}}
        assert await run.end(signal.SIGINT) == 0
    assert not kubeconfig.exists()


async def test_the_embedded_server_answers_while_a_handler_blocks_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("""
import base64, os, ssl, ctl, urllib.request, yaml

@ctl.on.create("kopfexamples")
async def create_fn(**_):
    config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": "Bearer " + user["token"]}
    request = urllib.request.Request(cluster["server"] + "/version", headers=headers)
    return urllib.request.urlopen(request, context=tls).status
""")
    async with command("run", "--sandbox", "--manifest", CRD, path) as run:
        assert (await handled(await run.kubeconfig()))["status"] == {"create_fn": 200}


async def test_a_module_by_its_name_in_one_namespace_as_the_environment_says(kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "my_operator.py").write_text(HANDLER.replace("MODULE", "ctl"))
    env = {"KUBECONFIG": str(kubeconfig), "KOPF_RUN_NAMESPACES": "default", "CTL_RUN_LOG_FORMAT": "json"}
    async with command("run", "-m", "my_operator", cwd=tmp_path, env=env) as run:
        await handled(kubeconfig)
        line = yaml.safe_load(await run.line("created by a handler"))
        assert line["object"] | {"uid": ""} == {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "name": "one",
            "namespace": "default",
            "uid": "",
        }
        assert line["severity"] == "info"


async def test_metrics_are_where_the_environment_says_and_a_taken_port_ends_it(
    kubeconfig: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with command("run", "-A", "--kubeconfig", kubeconfig, "--http", str(port), operator(tmp_path)) as run:
            assert await run.end() == 1
        assert run.lines[-1].startswith(f"Error: The port {port} is in use by another program")
    env = {"CTL_RUN_HTTP": "127.0.0.1:0", "KUBECONFIG": str(kubeconfig)}
    async with command("run", "-A", operator(tmp_path), env=env) as run:
        url = (await run.line("Metrics and health at ")).rpartition(" at ")[2].rstrip(".")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
            assert "ctl_build_info{" in await response.text()


async def test_a_broken_file_ends_at_once_with_the_users_traceback(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("import ctl\n\nctl.nonsense\n")
    async with command("run", "-A", path) as run:
        assert await run.end() == 1
    frames = [line.strip() for line in run.lines if line.strip().startswith("File ")]
    assert frames == [f'File "{path}", line 3, in <module>']
    assert run.lines[-1] == f"Error: {path} could not be loaded (AttributeError, see above)."


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["gone.py"], "The file gone.py does not exist (looked for in"),
        (["-A"], "Nothing to run: name the operator's Python files, or its modules with -m."),
        (["-A", "-n", "x", "main.py"], "Either --namespace or --all-namespaces can be used, not both."),
        (["--manifest", "x.yaml", "main.py"], "--manifest is for the embedded API server: add --sandbox."),
        (["--sandbox", "--context", "x", "main.py"], "--sandbox is a server of its own"),
        (["-A", "-m", "no_such_module"], "There is no module no_such_module."),
        (["-A", "--http", "nowhere", "main.py"], "The address of the pages is [HOST:]PORT"),
        (["-A", "--liveness", "https://:8080/", "main.py"], "--liveness is served as http://HOST:PORT/PATH"),
        (["-A", "--no-such-option"], "No such option"),
    ],
)
async def test_wrong_usage_is_one_sentence_and_code_2(args: list[str], said: str, tmp_path: Path) -> None:
    operator(tmp_path)
    async with command("run", *args, cwd=tmp_path) as run:
        assert await run.end() == 2
    assert said in run.lines[-1]
    assert "Traceback" not in run.output


async def test_a_program_may_declare_its_handlers_and_call_the_command_itself(kubeconfig: Path, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    begin, end = "import ctl\nctl.install_as_kopf()\n", "\nimport kopf.cli\nkopf.cli.main()\n"
    path.write_text(begin + HANDLER.replace("MODULE", "kopf") + end)
    async with command("run", "-n", "default", "--kubeconfig", kubeconfig, program=[path]) as run:
        body = await handled(kubeconfig)
        assert await run.end(signal.SIGTERM) == 0
    assert body["status"] == {"create_fn": {"hello": "one"}}


def config(server: str, token: str = "secret") -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "known", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "known",
        }
    )


@pytest.fixture
def nobody() -> str:
    """The address of a port on which nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        (None, [], ["No way to a Kubernetes server was found", "Set KUBECONFIG"]),
        (None, ["--kubeconfig", "gone"], ["gone", "does not exist"]),
        ("clusters: [unclosed", [], ["config is broken in line 1"]),
        ("[]", [], ["config is broken", "found a list"]),
        (config("http://127.0.0.1:1"), ["--context", "unknown"], ["unknown", "known"]),
    ],
)
async def test_access_that_cannot_work_is_one_sentence(
    text: str | None, args: list[str], said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(text or "")
    env = {"KUBECONFIG": str(tmp_path / "config")} if text else None
    async with command("run", "-A", *args, operator(tmp_path), cwd=tmp_path, env=env) as run:
        assert await run.end() == 1
    assert "Traceback" not in run.output
    assert run.lines[-1].startswith("Error: ")
    assert all(part in run.lines[-1] for part in said), run.lines[-1]


async def test_an_unreachable_server_is_one_sentence(nobody: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(config(nobody))
    async with command("run", "-A", "--kubeconfig", tmp_path / "config", operator(tmp_path)) as run:
        assert await run.end() == 1
    assert "Traceback" not in run.output
    assert run.lines[-1].startswith("Error: The server cannot be reached: ")
    assert nobody in run.lines[-1]
    assert " object at 0x" not in run.lines[-1]


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("http", "What answers there is no Kubernetes API: "),
        (
            "https",
            "no TLS is spoken there. Check the port of the server, or whether its address should begin with http://.",
        ),
    ],
)
async def test_a_wrong_port_is_one_sentence(scheme: str, said: str, tmp_path: Path) -> None:
    async def page(request: web.BaseRequest) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    runner = web.ServerRunner(web.Server(page))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        (tmp_path / "config").write_text(config(f"{scheme}://127.0.0.1:{port}"))
        async with command("run", "-A", "--kubeconfig", tmp_path / "config", operator(tmp_path)) as run:
            assert await run.end() == 1
    finally:
        await runner.cleanup()
    assert "Traceback" not in run.output
    assert run.lines[-1].startswith("Error: ")
    assert said in run.lines[-1]


async def test_what_is_not_installed_is_told_with_where_to_install_it(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("import nowhere_installed")
    async with command("run", "-A", path) as run:
        assert await run.end() == 1
    assert run.lines[-1].startswith(
        f"Error: {path} could not be loaded (ModuleNotFoundError, see above). Install what it imports for "
    )


async def test_a_refused_token_is_one_sentence_without_the_token(tmp_path: Path) -> None:
    async with Sandbox(settings=SandboxSettings(tokens=frozenset({"good"}))) as sandbox:
        (tmp_path / "config").write_text(config(sandbox.url, token="very-bad-token"))
        async with command("run", "-A", "--kubeconfig", tmp_path / "config", operator(tmp_path)) as run:
            assert await run.end() == 1
    assert "Traceback" not in run.output
    assert run.lines[-1].startswith("Error: The server refuses the credentials: ")
    assert run.lines[-1].endswith(". Log in again, or check them there.")
    assert "very-bad-token" not in run.output


async def test_a_failing_startup_handler_ends_the_run_with_its_own_error_in_the_log(
    kubeconfig: Path, tmp_path: Path
) -> None:
    path = tmp_path / "main.py"
    path.write_text("""
import ctl

@ctl.on.startup()
def connect(**_):
    raise ctl.PermanentError("no database")
""")
    async with command("run", "-A", "--kubeconfig", kubeconfig, path) as run:
        await run.line("Activity 'connect' failed permanently: no database")
        assert await run.end() == 1
    assert "Traceback" not in run.output
    assert run.lines[-1].startswith("Error: ")
    assert "connect" in run.lines[-1]


async def test_a_handler_that_takes_no_more_arguments_is_refused_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("import kopf\n\n@kopf.on.create('kopfexamples')\ndef fn(spec): pass\n")
    async with command("run", "-A", path) as run:
        assert await run.end() == 1
    frames = [line.strip() for line in run.lines if line.strip().startswith("File ")]
    assert frames == [f'File "{path}", line 3, in <module>']
    assert "Add `**_`" in run.output


async def test_what_is_not_there_yet_says_so_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("import kopf\n\nkopf.WebhookServer()\n")
    async with command("run", "-A", path) as run:
        assert await run.end() == 1
    assert "kopf.WebhookServer is not there yet in ctl" in run.output
    assert f'File "{path}", line 3, in <module>' in run.output


async def test_a_definition_that_is_not_there_yet_is_named_and_waited_for(tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        kubeconfig = sandbox.kubeconfig(tmp_path / "kubeconfig")
        async with command("run", "-A", "--kubeconfig", kubeconfig, operator(tmp_path)) as run:
            assert "kopfexamples" in await run.line("cannot be served (try creating their CRDs)")
            await sandbox.load_manifest(CRD.read_text())
            assert (await handled(kubeconfig))["status"] == {"create_fn": {"hello": "one"}}
            assert await run.end(signal.SIGTERM) == 0


async def test_without_a_word_about_namespaces_all_are_served_with_a_warning(kubeconfig: Path, tmp_path: Path) -> None:
    async with command("run", "--kubeconfig", kubeconfig, operator(tmp_path)) as run:
        await run.line("Neither --all-namespaces nor --namespace is given")
        await handled(kubeconfig, "kube-public")


def test_a_vault_of_the_invoker_is_refused_with_the_next_step(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from ctl.cli.options import CLIControls
    from ctl.cli.run import run

    file = tmp_path / "operator.py"
    file.write_text("")
    result = CliRunner().invoke(run, [str(file)], obj=CLIControls(vault=object()))
    assert isinstance(result.exception, TypeError)
    assert "@on.login" in str(result.exception)
