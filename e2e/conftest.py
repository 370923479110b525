"""Fixtures of the suites that run against whole API servers."""

import secrets
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

# The suites' own modules (`targets`, `controlplane.cluster`, `conformance.api`) are no part of the package.
sys.path.insert(0, str(Path(__file__).parent))

from conformance.api import Api
from conformance.spaces import Space, install, uninstall
from targets import Target, real_target, sandbox_target

HERE = Path(__file__).parent
TEST_SECONDS = 300.0
"""Only to end a test that hangs: each of its waits is bounded, and there may be several on a machine that is busy with others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of these suites, which wait for other processes, have more time."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def pytest_configure() -> None:
    """Programs that tests start can be interrupted: a shell's job in the background has inherited that it cannot."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def real() -> Iterator[Target]:
    """A real kube-apiserver: the cluster of KUBECONFIG, or else a control plane of our own."""
    with real_target() as target:
        yield target


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Target]:
    """The sandbox, over its socket."""
    with sandbox_target() as target:
        yield target


@pytest.fixture(scope="session", params=["real", "sandbox"])
def target(request: pytest.FixtureRequest) -> Target:
    """Each of the servers in turn."""
    found: Target = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def group(target: Target) -> Iterator[str]:
    """The API group of the suite's custom resources on a server, installed for the run."""
    name = f"e2e-{secrets.token_hex(4)}.ctl.test"
    install(target, name)
    yield name
    uninstall(target, name)


@pytest.fixture
async def api(target: Target) -> AsyncIterator[Api]:
    """A client of each of the servers in turn."""
    async with Api(target) as client:
        yield client


@pytest.fixture
async def space(api: Api, group: str) -> AsyncIterator[Space]:
    """A namespace of the test's own."""
    found = Space(f"e2e-{secrets.token_hex(6)}", group)
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.name}})
    yield found
    await api.call("DELETE", f"/api/v1/namespaces/{found.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the servers' logs with a failure."""
    report = yield
    target = getattr(item, "funcargs", {}).get("target")
    if isinstance(target, Target) and report.failed:
        report.sections.append(("server logs", target.logs()))
    return report
