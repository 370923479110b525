"""Login functions give what Kopf's give, whatever the client makes of it."""

import importlib
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes
import kubernetes_asyncio
import pytest
import yaml

import ctl
from ctl.handlers.kopf.connections import as_access

from .world import KEX, Calls, World

LIBRARIES = [kubernetes, kubernetes_asyncio]
LOGGER = logging.getLogger("test")


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


async def login(library: Any) -> ctl.ConnectionInfo:
    if library is kubernetes:
        info = ctl.login_via_client(logger=LOGGER)
    else:
        info = await ctl.login_via_async_client(logger=LOGGER)
    assert info is not None
    return info


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in LIBRARIES:
        monkeypatch.setattr(library.client.Configuration, "_default", None)


@pytest.mark.parametrize("server", ["https://x:6443/", "https://X:6443/k8s/clusters/c-1/", "x:8080", "http://x"])
def test_the_server_is_as_the_kubeconfig_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server)))
    info = ctl.login_with_kubeconfig()
    assert info is not None
    assert info.server == server
    assert ctl.ConnectionInfo(server=server).server == server


def test_data_and_paths_are_as_the_kubeconfig_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path, "https://x")
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["certificate-authority-data"] = "Q0E="
    content["users"][0]["user"] |= {"client-certificate": "/etc/cert.pem", "client-key-data": "S0VZ"}
    path.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", str(path))
    info = ctl.login_with_kubeconfig()
    assert info is not None
    assert (info.ca_path, info.ca_data, info.insecure) == (None, "Q0E=", None)
    assert (info.certificate_path, info.certificate_data) == ("/etc/cert.pem", None)
    assert (info.private_key_path, info.private_key_data) == (None, "S0VZ")
    assert as_access(info, "login").tls.ca_data == b"CA"


@pytest.mark.parametrize("provided", [None, "of-the-provider"])
def test_pykubes_auth_provider_is_asked_by_a_request(provided: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is not among those of the tests: this is what a login sees of it."""
    asked: list[Any] = []
    user: dict[str, Any] = {"auth-provider": {"config": {}}} if provided else {"token": "own"}

    def get(**kwargs: Any) -> None:
        asked.append(kwargs)
        user["auth-provider"]["config"]["access-token"] = provided

    found = SimpleNamespace(user=user, cluster={"server": "https://x/", "proxy-url": "http://p"}, namespace="ns")
    library = SimpleNamespace(
        KubeConfig=SimpleNamespace(from_service_account=lambda: found),
        HTTPClient=lambda _: SimpleNamespace(get=get),
    )
    monkeypatch.setitem(sys.modules, "pykube", library)
    info = ctl.login_via_pykube(logger=LOGGER)
    assert info is not None
    assert (info.server, info.token, info.proxy_url) == ("https://x/", provided or "own", "http://p")
    assert (info.default_namespace, info.priority) == ("ns", 20)
    assert len(asked) == (1 if provided else 0)


@pytest.mark.parametrize(
    ("server", "asked"),
    [("https://x:6443/", "https://x:6443"), ("https://x/k8s//", "https://x/k8s"), ("x:8080", "http://x:8080")],
)
def test_requests_go_to_it_all_the_same(server: str, asked: str) -> None:
    assert as_access(ctl.ConnectionInfo(server=server), "login").server == asked
    assert as_access(ctl.AiohttpSession(server=server, aiohttp_session=None), "login").server == asked


@pytest.mark.virtual_time
async def test_an_operator_works_with_a_server_that_ends_with_a_slash(world: World, calls: Calls) -> None:
    @ctl.on.login()
    def log_in(**_: Any) -> ctl.ConnectionInfo:
        return ctl.ConnectionInfo(server=f"{world.sandbox.url}/")

    @ctl.on.create(KEX.plural)
    async def create(name: str, **_: Any) -> None:
        calls(name, {})

    async with world.running(access=None):
        await world.create("one")
        await world.until(lambda: calls.names == ["one"])


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_stands_in_for_the_librarys_loaders_counts(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tests of operators do it: no arguments are given, and the configuration is the library's own default."""

    def nowhere() -> None:
        raise library.config.ConfigException("not in a cluster")

    def load() -> Any:
        configuration = library.client.Configuration()
        configuration.host = "https://replaced/"
        configuration.api_key = {"BearerToken": "Bearer of-the-test"}
        library.client.Configuration.set_default(configuration)
        return _nothing()

    async def _nothing() -> None: ...

    def load_sync() -> None:
        load().close()

    monkeypatch.setattr(library.config, "load_incluster_config", nowhere)
    monkeypatch.setattr(library.config, "load_kube_config", load_sync if library is kubernetes else load)
    info = await login(library)
    assert (info.server, info.scheme, info.token) == ("https://replaced/", "Bearer", "of-the-test")


@pytest.mark.parametrize("library", LIBRARIES)
async def test_what_stands_in_for_the_librarys_configuration_counts(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(
        host="https://replaced",
        ssl_ca_cert=None,
        verify_ssl=False,
        username="",
        password="",
        cert_file=None,
        key_file=None,
        proxy=None,
        get_api_key_with_prefix=lambda key: "bare" if key == "BearerToken" else None,
    )
    monkeypatch.setattr(library.config, "load_incluster_config", lambda: None)
    monkeypatch.setattr(library.client.Configuration, "get_default_copy", lambda: found)
    info = await login(library)
    assert (info.server, info.scheme, info.token, info.insecure) == ("https://replaced", None, "bare", True)


@pytest.mark.parametrize("library", LIBRARIES)
async def test_nothing_to_log_in_with_is_said_in_kopfs_words(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise library.config.ConfigException("nothing")

    monkeypatch.setattr(library.config, "load_incluster_config", nowhere)
    monkeypatch.setattr(library.config, "load_kube_config", nowhere)
    with pytest.raises(ctl.LoginError, match="client library neither in-cluster, nor via kubeconfig"):
        await login(library)


def test_proxies_that_the_library_takes_from_the_environment_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    path = str(kubeconfig(tmp_path, "https://x"))
    module = importlib.import_module("kubernetes.config.kube_config")
    monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", path)
    info = ctl.login_via_client(logger=LOGGER)
    assert info is not None
    assert (info.server, info.token, info.proxy_url, info.trust_env) == ("https://x", "secret", None, False)


@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ({"ca_path": "a", "ca_data": "b"}, "Both CA path & data are set. Need only one."),
        ({"certificate_path": "a", "certificate_data": "b"}, "Both certificate path & data are set. Need only one."),
        ({"private_key_path": "a", "private_key_data": "b"}, "Both private key path & data are set. Need only one."),
    ],
)
def test_a_path_and_data_of_one_thing_are_refused_in_kopfs_words(given: dict[str, str], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        ctl.ConnectionInfo(server="x", **given)  # type: ignore[arg-type]


def test_basic_credentials_are_deprecated_in_kopfs_words() -> None:
    with pytest.warns(DeprecationWarning, match=r"as_aiohttp_basic_auth\(\) is deprecated, stop calling it"):
        ctl.ConnectionInfo(server="x").as_aiohttp_basic_auth()
