"""The pages of an operator under test."""

from collections import defaultdict

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from ..ports import free_port


class Site:
    """The pages of an operator; `http` is where."""

    def __init__(self) -> None:
        self.http = f"127.0.0.1:{free_port()}"

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Ask for a page."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.http}{path}", headers=headers) as response,
        ):
            return response.status, await response.text()

    async def samples(self) -> dict[str, float]:
        """All samples by their names with labels."""
        _, text = await self.get("/metrics")
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    async def types(self) -> dict[str, str]:
        """The types of all metrics, by name."""
        _, text = await self.get("/metrics")
        lines = [line.split() for line in text.splitlines() if line.startswith("# TYPE ")]
        return {name: kind for _, _, name, kind in lines}

    async def labels(self) -> dict[str, set[str]]:
        """The names of the labels of each metric that has samples."""
        _, text = await self.get("/metrics")
        found: dict[str, set[str]] = defaultdict(set)
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            for sample in family.samples:
                found[name] |= set(sample.labels) - {"le"}
        return found
