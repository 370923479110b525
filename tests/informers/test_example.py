"""The example of informers without handlers, run as it stands."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from ctl.sandbox import Sandbox

EXAMPLE = Path(__file__).parents[2] / "examples" / "20-informers" / "example.py"


async def test_each_config_map_is_annotated_and_nothing_is_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("example_informers", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    async with Sandbox() as sandbox:
        for number in range(20):
            data = {f"key-{entry}": "value" for entry in range(number)}
            sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}, "data": data})
        monkeypatch.setenv("KUBECONFIG", str(sandbox.kubeconfig(tmp_path / "config")))
        task = asyncio.create_task(example.main())
        wanted = [str(number) for number in range(20)]
        async with asyncio.timeout(60):
            while (notes(sandbox, example.NOTE)) != wanted:
                assert not task.done(), task.exception()
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len([request for request in sandbox.write_log if request.method == "PATCH"]) == 20


def notes(sandbox: Sandbox, note: str) -> list[str | None]:
    found = [sandbox.get("v1", "ConfigMap", f"c{number}") for number in range(20)]
    return [obj["metadata"].get("annotations", {}).get(note) for obj in found if obj is not None]
