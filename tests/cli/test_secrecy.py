"""Whatever is logged, tokens are not in it; and whoever logs, the loop goes on."""

import asyncio
import base64
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctl.client.config.loading import load_access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.sandbox import Sandbox, SandboxSettings

from .processes import PATIENCE, command, with_token

TOKEN, LOGIN_TOKEN, PASSWORD = "t0ken-of-the-kubeconfig", "t0ken-of-the-login", "p4ssword-of-the-secret"
SECRETS = Resource("", "v1", "secrets", namespaced=True)
OPERATOR = """
import base64
import logging
import ctl

@ctl.on.create("v1", "secrets")
def create_fn(name, logger, body, patch, **_):
    logger.info("a secret is handled: %s", name)
    # As the client libraries do with all that they get.
    for library in ("kubernetes", "kubernetes_asyncio"):
        logging.getLogger(f"{library}.client.rest").debug("response body: %s", body["data"])
    patch.fns.append(lambda body: body["data"].update(more=base64.b64encode(b"more" + base64.b64decode(body["data"]["password"])).decode()))

@ctl.on.update("v1", "secrets")
def update_fn(name, logger, **_):
    raise ctl.PermanentError("it is not to be changed")
"""
CHATTY = """
import logging
import threading
import ctl

@ctl.on.create("v1", "configmaps")
def create_fn(name, logger, **_):
    def talk():
        for number in range(300):
            logger.warning("number %d of %s", number % 7, name)
            logging.getLogger("elsewhere").error("the same")
    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logger.info("%s has said everything", name)
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(settings=SandboxSettings(tokens=frozenset({TOKEN, LOGIN_TOKEN}))) as sandbox:
        yield sandbox


@pytest.fixture
def kubeconfig(sandbox: Sandbox, tmp_path: Path) -> Path:
    return with_token(sandbox, tmp_path / "kubeconfig", TOKEN)


@pytest.mark.parametrize("log_format", ["full", "json"])
async def test_a_debugging_run_shows_no_tokens_and_no_secrets(
    sandbox: Sandbox, kubeconfig: Path, tmp_path: Path, log_format: str
) -> None:
    main = tmp_path / "main.py"
    login = f"""
@ctl.on.login()
def login_fn(**_):
    return ctl.ConnectionInfo(server={sandbox.url!r}, token={LOGIN_TOKEN!r})
"""
    main.write_text(OPERATOR + (login if log_format == "json" else ""))
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    options = ("-n", "default", "--debug", f"--log-format={log_format}")
    async with (
        command("run", *options, main, env={"KUBECONFIG": str(kubeconfig)}) as run,
        Client(load_access(kubeconfig)) as client,
    ):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": data}
        await client.create(SECRETS, body, "default")
        await run.line("a secret is handled: one")
        await run.line("Creation is processed")
        await client.patch(SECRETS, "one", "default", {"data": {"other": data["password"]}})
        await run.line("Updating is processed")
        assert await run.end(signal.SIGTERM) == 0
    for secret in (
        TOKEN,
        LOGIN_TOKEN,
        PASSWORD,
        data["password"],
        base64.b64encode(f"more{PASSWORD}".encode()).decode(),
    ):
        assert secret not in run.output
    if log_format == "json":
        assert all("severity" in json.loads(line) for line in run.lines if line.startswith("{"))


async def test_threads_that_log_do_not_stop_the_loop(kubeconfig: Path, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(CHATTY)
    async with (
        command("run", "-n", "default", main, env={"KUBECONFIG": str(kubeconfig)}) as run,
        Client(load_access(kubeconfig)) as client,
        asyncio.timeout(PATIENCE),
    ):
        resource = Resource("", "v1", "configmaps", namespaced=True)
        for number in range(3):
            meta = {"name": f"map-{number}"}
            await client.create(resource, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, "default")
        for number in range(3):
            await run.line(f"map-{number} has said everything")
