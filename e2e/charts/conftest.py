"""Fixtures of the suites of the charts."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from charts.build import ENGINE, TOOLS, monitoring
from charts.helm import Helm
from charts.prometheus import Prometheus
from charts.release import Release
from charts.schemas import write_defined, write_published
from conformance.api import MERGE, Api
from conformance.spaces import DEFINITIONS, established
from controlplane import build
from controlplane.build import BuildError
from controlplane.cluster import ControlPlane, Options
from operators.auditing import Audited
from operators.cluster import OBJECTS
from targets import of_control_plane

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PEERING = EXAMPLES / "peering.yaml"
EXAMPLE = EXAMPLES / "01-minimal" / "crd.yaml"


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of helm and kubeconform."""
    if not TOOLS.is_built():
        pytest.skip("helm and kubeconform are not built: `make e2e` does it, or python -m charts.build in e2e/")
    return TOOLS.folder


@pytest.fixture
def prometheus() -> Prometheus:
    """Prometheus' own engine, which has scraped nothing yet."""
    if not ENGINE.is_built():
        pytest.skip("the engine of Prometheus is not built: `make e2e` does it, or python -m charts.build in e2e/")
    return Prometheus(ENGINE.folder / "engine")


@pytest.fixture(scope="session")
def helm(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster."""
    return Helm(binaries, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def definitions() -> list[dict[str, object]]:
    """The definitions of the monitoring kinds and of peerings."""
    try:
        folder = monitoring()
    except BuildError as error:
        pytest.skip(f"the definitions of the monitoring kinds are not there: {error}")
    files = [*sorted(folder.glob("*.yaml")), PEERING]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


@pytest.fixture(scope="session")
def server(definitions: list[dict[str, object]]) -> Iterator[Audited]:
    """A real server of the charts' own, with an audit log; it knows the kinds that monitor and the one of the examples."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("needs a server whose audit log can be read; the one of KUBECONFIG is not ours")
    if not build.is_built():
        pytest.fail("The real control plane is not built yet: run `make e2e`, or python e2e/controlplane/build.py.")
    with ControlPlane(Options(audit=True)) as cluster:
        found = Audited(cluster, of_control_plane(cluster))
        ours = [one for one in definitions if "Peering" not in str(one)]
        asyncio.run(_install(found, [*ours, yaml.safe_load(EXAMPLE.read_text())]))
        yield found


async def _install(server: Audited, definitions: list[dict[str, object]]) -> None:
    async with Api(server.target) as api:
        for definition in definitions:
            await api.create(DEFINITIONS, definition)
            await established(api, definition)


@pytest.fixture(scope="session")
def installing(helm: Helm, server: Audited) -> Helm:
    """helm as the administrator of the server."""
    return replace(helm, kubeconfig=server.target.kubeconfig)


@pytest.fixture(scope="session")
def schemas(server: Audited, definitions: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the schemas of all kinds, as kubeconform reads them."""
    folder = tmp_path_factory.mktemp("schemas")

    async def published() -> None:
        async with Api(server.target) as api:
            answer = await api.call("GET", "/openapi/v2")
            assert answer.code == 200, answer
            write_published(answer.body, folder)

    asyncio.run(published())
    write_defined(definitions, folder)
    return folder


@pytest.fixture
async def api(server: Audited) -> AsyncIterator[Api]:
    """A client of the administrator."""
    async with Api(server.target) as found:
        yield found


@pytest.fixture
async def release(installing: Helm, server: Audited, api: Api, tmp_path: Path) -> AsyncIterator[Release]:
    """A release to be installed in a namespace of its own, which enforces the strictest standard for pods."""
    namespace = f"chart-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": namespace, "labels": labels}
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    yield Release(installing, server, api, namespace, tmp_path)
    # Operators of the whole cluster, in other tests, would handle what is left here.
    path = OBJECTS.format(namespace=namespace)
    left = await api.call("GET", path)
    for item in left.body["items"] if left.code == 200 else ():
        await api.call("PATCH", f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}}, kind=MERGE)
        await api.call("DELETE", f"{path}/{item['metadata']['name']}")
