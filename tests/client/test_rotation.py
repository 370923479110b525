"""What a kubeconfig says is replaced while the process runs: over real sockets, in virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctl.client.config.loading import load_access
from ctl.client.errors import Unauthorized
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.controller.leader.leadership import Leadership
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.reflector_state import Phase
from ctl.runtime import clock
from ctl.sandbox import Match, Sandbox, SandboxSettings

pytestmark = pytest.mark.virtual_time

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
KINDS = [MAPS, Resource("", "v1", "secrets", kind="Secret"), Resource("", "v1", "services", kind="Service")]


def write(path: Path, server: str, token: str, **more: Any) -> Path:
    content = {
        "current-context": more.pop("current", "ours"),
        "clusters": [{"name": "c", "cluster": {"server": server, **more}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": "ours", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "elsewhere"}},
        ],
    }
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(content))
    return new.replace(path)


@asynccontextmanager
async def a_server(*tokens: str) -> AsyncIterator[Sandbox]:
    async with Sandbox(settings=SandboxSettings(clock=clock.now, tokens=frozenset(tokens))) as sandbox:
        yield sandbox


@dataclass
class Process:
    """What one process has to do with the server."""

    client: Client
    factory: SharedInformerFactory
    leadership: Leadership

    async def works(self, seconds: float, name: str) -> None:
        """All of it works within so many seconds."""
        async with asyncio.timeout(seconds):
            await self.client.create(MAPS, {"metadata": {"name": name}}, "default")
            informers = list(self.factory.informers)
            while not all(informer.state.phase is Phase.WATCHING for informer in informers):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            while ("default", name) not in {obj.key for obj in informers[0].store}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await self.leadership.wait_open()


@asynccontextmanager
async def a_process(path: Path) -> AsyncIterator[Process]:
    access = load_access(path)
    async with Client(access) as client:
        process = Process(
            client, SharedInformerFactory(client), Leadership(access, LeaderElectionConfig("lease", "default", "me"))
        )
        for kind in KINDS:
            process.factory.informer(kind).subscribe("test")
        await process.leadership.start()
        try:
            await process.works(10, "first")
            yield process
        finally:
            await process.leadership.stop(1.0)
            await process.factory.stop()


@pytest.mark.parametrize("delay", [0, 3, 70, 600])
async def test_a_token_that_was_rotated_in_the_kubeconfig_is_used_within_five_seconds(
    delay: float, tmp_path: Path
) -> None:
    async with a_server("old", "new") as sandbox:
        path = write(tmp_path / "config", sandbox.url, "old")
        async with a_process(path) as process:
            sandbox.take_tokens({"new"})
            sandbox.faults.cut_watches()
            await asyncio.sleep(delay)
            write(path, sandbox.url, "new")
            await process.works(5, "second")


@pytest.mark.parametrize(
    "user", ["tokenFile: token", "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login}"]
)
@pytest.mark.parametrize("delay", [0, 70])
async def test_a_token_that_comes_from_a_file_or_a_plugin_is_used_within_five_seconds(
    user: str, delay: float, tmp_path: Path
) -> None:
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}'
    (tmp_path / "login").write_text(f"#!/bin/sh\nprintf '{answer}' $(cat \"${{0%/*}}/token\")\n")
    (tmp_path / "login").chmod(0o755)
    (tmp_path / "token").write_text("old")
    async with a_server("old", "new") as sandbox:
        (tmp_path / "config").write_text(
            f"current-context: x\nclusters: [{{name: c, cluster: {{server: '{sandbox.url}'}}}}]\n"
            f"users: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
        )
        async with a_process(tmp_path / "config") as process:
            sandbox.take_tokens({"new"})
            sandbox.faults.cut_watches()
            await asyncio.sleep(delay)
            (tmp_path / "token").write_text("new")
            await process.works(5, "second")


async def test_a_token_that_was_rotated_in_time_interrupts_nothing(tmp_path: Path) -> None:
    async with a_server("old", "new") as sandbox:
        path = write(tmp_path / "config", sandbox.url, "old")
        async with a_process(path) as process:
            write(path, sandbox.url, "new")
            await asyncio.sleep(60)
            sandbox.take_tokens({"new"})
            await asyncio.gather(*(process.client.list(MAPS) for _ in range(100)))
            assert process.leadership.is_open
            await asyncio.sleep(60)
            assert process.leadership.is_open
            assert len(sandbox.log.select(Match(when=lambda request: request.code == 401))) <= 102, (
                "none is refused twice"
            )


async def test_a_cluster_that_was_made_anew_elsewhere_is_found(tmp_path: Path) -> None:
    async with a_server("old") as former:
        path = write(tmp_path / "config", former.url, "old")
        async with a_process(path) as process:
            await former.stop()
            await asyncio.sleep(100)
            async with a_server("new") as latter:
                write(path, latter.url, "new")
                await process.works(5, "second")
                assert latter.get("v1", "ConfigMap", "second") is not None
                await process.leadership.stop(1.0)


async def test_another_current_context_leads_nobody_elsewhere(tmp_path: Path) -> None:
    async with a_server("old", "new") as sandbox:
        path = write(tmp_path / "config", sandbox.url, "old")
        async with a_process(path) as process:
            write(path, sandbox.url, "new", current="other")
            sandbox.take_tokens({"new"})
            await process.works(5, "second")
            assert (await process.client.access()).default_namespace is None


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_text("a: ["), lambda path: path.write_text(""), lambda path: path.unlink()],
    ids=["no yaml", "empty", "gone"],
)
async def test_a_kubeconfig_that_cannot_be_used_for_a_while_is_told_of_once(
    spoil: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_server("old", "new") as sandbox:
        path = write(tmp_path / "config", sandbox.url, "old")
        async with a_process(path) as process:
            spoil(path)
            await process.works(5, "second")
            sandbox.take_tokens({"new"})
            with pytest.raises(Unauthorized):
                await process.client.list(MAPS)
            await asyncio.sleep(30)
            with pytest.raises(Unauthorized):
                await process.client.list(MAPS)
            write(path, sandbox.url, "new")
            await process.works(5, "third")
    told = [
        record
        for record in caplog.records
        if record.name == "ctl.client.config.loading" and record.levelno >= logging.WARNING
    ]
    assert len(told) == 1
    assert "old" not in told[0].getMessage().replace("older", "")
