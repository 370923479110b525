"""Handlers make clients of the `kubernetes` package without any configuration: it is that of the operator."""

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes_asyncio
import pytest
import yaml

import ctl
from ctl.handlers.kopf import client_libraries as libraries

LIBRARIES = [kubernetes, kubernetes_asyncio]


def kubeconfig(path: Path, *servers: str) -> str:
    named = [{"name": f"c{number}", "cluster": {"server": server}} for number, server in enumerate(servers)]
    contexts = [{"name": one["name"], "context": {"cluster": one["name"], "user": "me"}} for one in named]
    users = [{"name": "me", "user": {"token": "secret"}}]
    path.write_text(yaml.safe_dump({"clusters": named, "contexts": contexts, "users": users, "current-context": "c0"}))
    return str(path)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = list(sys.meta_path)
    for library in LIBRARIES:
        monkeypatch.setattr(library.client.Configuration, "_default", None)
    yield
    sys.meta_path[:] = before


def host(library: Any) -> str:
    return str(library.client.Configuration.get_default_copy().host)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_they_are_set_up_by_the_kubeconfig(library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "one", "http://one:1", "http://two:2"))
    await libraries.introduce()
    assert host(library) == "http://one:1"
    await libraries.introduce("c1")
    assert host(library) == "http://two:2"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_the_program_has_set_up_is_left_alone(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "one", "http://one:1"))
    library.client.Configuration.set_default(library.client.Configuration(host="http://mine:1"))
    await libraries.introduce()
    assert host(library) == "http://mine:1"


async def test_a_broken_kubeconfig_is_no_error_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    await libraries.introduce()
    assert kubernetes.client.Configuration._default is None


async def test_it_is_set_up_when_a_handler_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "one", "http://one:1"))
    monkeypatch.delitem(sys.modules, "kubernetes")
    await libraries.introduce()
    assert "kubernetes" not in sys.modules
    found = importlib.import_module("kubernetes")
    assert host(found) == "http://one:1"
    assert found.__spec__ is not None
    assert type(found.__spec__.loader) is type(importlib.import_module("yaml").__loader__)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_the_logins_by_them_set_them_up_too(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(tmp_path / "one", "http://one:1")
    module = importlib.import_module(f"{library.__name__}.config.kube_config")
    monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", path)
    logger = logging.getLogger("test")
    if library is kubernetes:
        info = ctl.login_via_client(logger=logger)
    else:
        info = await ctl.login_via_async_client(logger=logger)
    assert info is not None
    assert (info.server, info.token) == ("http://one:1", "secret")
    assert host(library) == "http://one:1"
