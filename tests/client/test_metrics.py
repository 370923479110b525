"""What the client counts, under the names that Kubernetes' own components made customary."""

from ctl.client.config.access import Access
from ctl.client.errors import NotFound
from ctl.client.metrics import ClientMetrics
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.runtime.metrics import Metrics
from ctl.sandbox import Sandbox


def _lines(metrics: ClientMetrics) -> list[str]:
    registry = Metrics()
    registry.add_source(metrics.samples)
    return registry.expose()[0].decode().splitlines()


async def test_requests_are_counted_by_code_method_and_host_and_timed_by_verb() -> None:
    async with Sandbox() as sandbox, Client(Access(server=sandbox.url), ClientSettings(error_backoffs=(0,))) as client:
        host = sandbox.url.removeprefix("http://")
        await client.request("GET", "/version")
        try:
            await client.request("GET", "/nowhere")
        except NotFound:
            sandbox.faults.refuse(times=1)
        await client.request("GET", "/version")
        lines = _lines(client.metrics)
    assert f'rest_client_requests_total{{code="200",host="{host}",method="GET"}} 2.0' in lines
    assert f'rest_client_requests_total{{code="404",host="{host}",method="GET"}} 1.0' in lines
    assert f'rest_client_requests_total{{code="<error>",host="{host}",method="GET"}} 1.0' in lines
    assert f'rest_client_request_duration_seconds_count{{host="{host}",verb="GET"}} 4.0' in lines
    assert f'rest_client_request_retries_total{{code="<error>",host="{host}",verb="GET"}} 1.0' in lines
    assert client.metrics.retries == 1


def test_a_client_that_did_nothing_has_its_plain_counters_at_zero() -> None:
    lines = _lines(ClientMetrics())
    assert "ctl_client_throttled_total 0.0" in lines
    assert "ctl_client_received_bytes_total 0.0" in lines
