"""What users suffered from, as whole operators: rotating tokens, plugins for logins, many timers, neighbours in the loop, one's own logging."""

import asyncio
import json
import logging
import logging.config
import os
import random
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

import ctl
from ctl.client.resources import Resource
from ctl.sandbox import Match, SandboxSettings

from .world import KEX, Calls, World, a_world, quick, rest

EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
FULL = bool(os.environ.get("SOAK_ROUNDS"))
"""`make soak` looks at all of them, every other run at a part."""


def kubeconfig(world: World, path: Path, user: dict[str, Any]) -> Path:
    """A kubeconfig of the world's server for a user."""
    config = yaml.safe_load(world.sandbox.kubeconfig(path).read_text())
    config["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(config))
    return path


def kex(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": spec}


@pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")
async def test_a_token_that_is_replaced_each_minute_and_random_refusals_miss_nothing(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an hour: the server takes the newest token, and the one before it for a minute more."""
    chance, token = random.Random(7), tmp_path / "token"
    async with a_world(SandboxSettings(tokens=frozenset({"t0", "user"}))) as world:
        token.write_text("t0")
        path = kubeconfig(world, tmp_path / "kubeconfig", {"tokenFile": str(token)})
        monkeypatch.setenv("KUBECONFIG", str(path))

        @ctl.on.create(KEX.plural, id="create")
        async def create(name: str, **_: Any) -> None:
            calls(name, {})

        names: list[str] = []
        async with world.running(access=None) as running:
            for minute in range(1, 61):
                token.write_text(f"t{minute}")
                world.sandbox.take_tokens({f"t{minute}", f"t{minute - 1}", "user"})
                for part in range(3):
                    await asyncio.sleep(chance.uniform(5, 19))
                    if chance.random() < 0.5:
                        world.sandbox.faults.answer(401, match=Match(user_agent="ctl/"), times=1)
                    if chance.random() < 0.3:
                        world.sandbox.faults.cut_watches(Match(user_agent="ctl/"))
                    names.append(f"o{minute}-{part}")
                    world.sandbox.create(kex(names[-1]))
                assert not running.task.done()
            await world.until(lambda: len(calls) == len(names))
            await rest(5)
            assert not running.task.done()
        assert calls.names == names


PLUGIN = """#!{python}
import json
print(json.dumps({{
    "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "from-the-plugin"}},
}}))
"""


async def test_a_kubeconfig_with_a_plugin_needs_no_client_library(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("kubernetes", "pykube"):
        monkeypatch.setitem(sys.modules, library, None)
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable))
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    async with a_world(SandboxSettings(tokens=frozenset({"from-the-plugin"}))) as world:
        api = "client.authentication.k8s.io/v1"
        user = {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(world, tmp_path / "kubeconfig", user)))

        @ctl.on.create(KEX.plural, id="create")
        async def create(name: str, **_: Any) -> None:
            calls(name, {})

        async with world.running(access=None):
            world.sandbox.create(kex("one"))
            await world.until(lambda: calls.names == ["one"])


@pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")
async def test_many_timers_are_spread_over_their_period_and_ask_their_filters_at_each_tick(world: World) -> None:
    count, loop = 10_000 if FULL else 200, asyncio.get_running_loop()
    ticks: list[tuple[str, float]] = []
    wanted = True

    @ctl.timer(KEX.plural, interval=60, when=lambda **_: wanted)
    async def timer(name: str, **_: Any) -> None:
        ticks.append((name, loop.time()))

    for number in range(count):
        world.sandbox.create(kex(f"o{number}"))
    async with world.running():
        began = loop.time()
        await rest(60.2)
        assert len({name for name, _ in ticks}) == count
        seconds = [int(at - began) for _, at in ticks]
        assert max(map(seconds.count, set(seconds))) <= 2 + 2 * count / 60
        wanted = False
        await rest(1)
        before = len(ticks)
        await rest(180)
        assert len(ticks) == before
        wanted = True
        await rest(60.2)
        assert before + count <= len(ticks) <= before + 1.1 * count


@pytest.mark.virtual_time
async def test_a_web_server_in_the_same_loop_goes_on_when_the_operator_ends(world: World, calls: Calls) -> None:
    """The operator cancels its own tasks, all of them and no others."""
    started = asyncio.Event()

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        started.set()
        await asyncio.sleep(3600)

    @ctl.daemon(KEX.plural, cancellation_timeout=1)
    async def daemon(**_: Any) -> None:
        await asyncio.sleep(36000)

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def work() -> None:
        while True:
            await asyncio.sleep(1)
            calls("work", {})

    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    mine = asyncio.create_task(work())
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            async with session.get(url) as answer:
                assert await answer.text() == "hello"
            async with world.running():
                world.sandbox.create(kex("one"))
                await started.wait()
            done = len(calls)
            await asyncio.sleep(10)
            assert len(calls) >= done + 9
            async with session.get(url) as answer:
                assert await answer.text() == "hello"
        left = {task.get_name() for task in asyncio.all_tasks()}
        assert not {name for name in left if "operator" in name or "kopfexamples" in name or "create" in name}
        assert not mine.done()
    finally:
        mine.cancel()
        await runner.cleanup()


@pytest.fixture
def own_logging(tmp_path: Path) -> Iterator[Path]:
    """A configuration of the user's, with a format of its own into a file; everything is put back afterwards."""
    root, path = logging.getLogger(), tmp_path / "log"
    before = (root.level, list(root.handlers))
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in {"kopf", "ctl"}]
    levels = {name: (logging.getLogger(name).level, logging.getLogger(name).disabled) for name in names}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"mine": {"format": '{"mine": true, "logger": "%(name)s", "text": "%(message)s"}'}},
            "handlers": {"file": {"class": "logging.FileHandler", "filename": str(path), "formatter": "mine"}},
            "loggers": {"kopf.objects": {"level": "WARNING"}},
            "root": {"level": "INFO", "handlers": ["file"]},
        }
    )
    yield path
    for handler in root.handlers:
        handler.close()
    root.level, root.handlers = before
    for name in names:
        logging.getLogger(name).level, logging.getLogger(name).disabled = levels.get(name, (0, False))
    logging.getLogger("kopf.objects").setLevel(logging.NOTSET)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.virtual_time
async def test_logs_go_through_the_users_own_configuration(world: World, own_logging: Path) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(logger: Any, **_: Any) -> None:
        logger.info("this level is not wanted")
        logger.warning("this one is")

    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    async with world.running():
        world.sandbox.create(kex("one"))
        await world.handled()
    assert root.handlers == before
    lines = _lines(own_logging)
    assert [line["text"] for line in lines if line["logger"] == "kopf.objects"] == ["this one is"]
    assert all(line["mine"] for line in lines)


@pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")
async def test_thousands_of_equal_failures_are_one_event_with_a_count(world: World, calls: Calls) -> None:
    count = 10_000 if FULL else 200

    @ctl.on.create(KEX.plural, id="create")
    async def create(**_: Any) -> None:
        if calls("create", {}) < count:
            raise ctl.TemporaryError("always the same", delay=1)

    settings = quick()
    settings.posting.loggers = True
    settings.posting.level = logging.ERROR
    async with world.running(settings=settings):
        world.sandbox.create(kex("one"))
        await world.until(lambda: calls.count("create") == count, seconds=count * 2)
        await rest(60)
    events = [event.body() for event in await world.user.list(EVENTS, "default")]
    assert len(events) == 1
    assert events[0]["message"].endswith("always the same")
    assert events[0].get("count") == count - 1 or events[0]["series"]["count"] == count - 1
