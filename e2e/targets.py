"""Names the API servers that the suites run against: a real one and the sandbox."""

import asyncio
import base64
import contextlib
import os
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from controlplane.cluster import ControlPlane

    from ctl.sandbox import Sandbox

START_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """An API server: how to reach it, and what a test may do to it beside its API."""

    name: str
    """`real` or `sandbox`."""
    url: str
    kubeconfig: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    compact: Callable[[], object] | None = None
    """Forget the history before now; None where a test has no hand on it (a cluster given by KUBECONFIG)."""
    logs: Callable[[], str] = str
    patches: Callable[[str], int] | None = None
    """How many PATCH requests for a resource (by its plural) were received; None: ask the server's own metrics."""


class TargetError(Exception):
    """A server that the suites should run against cannot be used; the message says why."""


@contextlib.contextmanager
def sandbox_target() -> Iterator[Target]:
    """The sandbox, on a thread and loop of its own so that it outlives the loops of single tests."""
    from ctl.sandbox import Sandbox

    loop = asyncio.new_event_loop()
    started = threading.Event()
    stopping = asyncio.Event()
    found: list[Sandbox] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        async with Sandbox() as sandbox:
            found.append(sandbox)
            started.set()
            await stopping.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())
        except BaseException as error:
            failures.append(error)
        finally:
            started.set()

    def compact() -> None:
        asyncio.run_coroutine_threadsafe(_compact(found[0]), loop).result(START_SECONDS)

    def patches(plural: str) -> int:
        log = list(found[0].write_log)
        return sum(request.method == "PATCH" and f"/{plural}/" in request.path for request in log)

    thread = threading.Thread(target=run, name="sandbox", daemon=True)
    thread.start()
    if not started.wait(START_SECONDS) or failures:
        raise TargetError(f"The sandbox did not start within {START_SECONDS:.0f} s: {failures}")
    with tempfile.TemporaryDirectory(prefix="ctl-e2e-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        found[0].kubeconfig(kubeconfig)
        yield Target(
            name="sandbox",
            url=found[0].url,
            kubeconfig=kubeconfig,
            compact=compact,
            patches=patches,
        )
    loop.call_soon_threadsafe(stopping.set)
    thread.join(START_SECONDS)
    if failures:
        raise failures[0]


async def _compact(sandbox: "Sandbox") -> None:
    # As in etcd the compacted version itself can still be read: it has to be one that no object was written at.
    sandbox.history.skip()
    sandbox.compact()


@contextlib.contextmanager
def real_target() -> Iterator[Target]:
    """The cluster that KUBECONFIG names, or else a control plane of our own with its controller manager."""
    given = os.environ.get("KUBECONFIG")
    if given:
        yield from_kubeconfig(Path(given))
        return
    from controlplane import build
    from controlplane.cluster import ControlPlane, Options

    # No test may take as long as the build.
    if not build.is_built():
        raise TargetError(
            "The real control plane is not built yet: run `make e2e`, or python e2e/controlplane/build.py and this again "
            "(about 7 minutes, once); set KUBECONFIG to use a cluster of yours; or choose the sandbox alone with -k sandbox."
        )
    with ControlPlane(Options(controller_manager=True)) as cluster:
        yield of_control_plane(cluster)


def of_control_plane(cluster: "ControlPlane") -> Target:
    """A control plane of our own, as its administrator sees it."""
    return Target(
        name="real",
        url=cluster.url,
        kubeconfig=cluster.kubeconfig,
        headers={"Authorization": f"Bearer {cluster.token}"},
        tls=ssl.create_default_context(cafile=str(cluster.certificate_authority)),
        compact=cluster.compact,
        logs=cluster.logs,
    )


def as_user(target: Target, name: str, token: str, kubeconfig: Path) -> Target:
    """The same server for somebody else, whose kubeconfig is written to this file."""
    config = yaml.safe_load(target.kubeconfig.read_text())
    config["users"] = [{"name": name, "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = name
    kubeconfig.write_text(yaml.safe_dump(config))
    return replace(target, kubeconfig=kubeconfig, headers={"Authorization": f"Bearer {token}"})


def from_kubeconfig(path: Path) -> Target:
    """The current context of a kubeconfig with a token or a client certificate. Raises `TargetError`."""
    config = yaml.safe_load(path.read_text())
    context = _named(config, "contexts", config.get("current-context"), path)["context"]
    cluster = _named(config, "clusters", context["cluster"], path)["cluster"]
    user = _named(config, "users", context["user"], path)["user"]
    headers: dict[str, str] = {}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    elif "client-certificate-data" not in user and "client-certificate" not in user:
        raise TargetError(
            f"{path}: user {context['user']!r} has neither token nor client certificate; the suite uses no plugins."
        )
    return Target(
        name="real", url=cluster["server"].rstrip("/"), kubeconfig=path, headers=headers, tls=_tls(cluster, user, path)
    )


def _named(config: Mapping[str, Any], section: str, name: object, path: Path) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    raise TargetError(
        f"{path} has no entry {name!r} in {section!r}; set KUBECONFIG to one with a usable current context."
    )


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext | None:
    if not cluster["server"].startswith("https:"):
        return None
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif authority := _pem(cluster, "certificate-authority", path):
        context.load_verify_locations(cadata=authority)
    certificate, key = _pem(user, "client-certificate", path), _pem(user, "client-key", path)
    if certificate and key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
            both.write(f"{certificate}\n{key}")
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _pem(entry: Mapping[str, Any], name: str, path: Path) -> str:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"]).decode()
    return (path.parent / entry[name]).read_text() if name in entry else ""
