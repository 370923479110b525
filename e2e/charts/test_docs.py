"""What docs/deployment.md and docs/security.md tell to do works as it is written."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from charts.helm import CHART, SECONDS, VALUES, Helm
from charts.release import Release

ROOT = CHART.parents[1]
PAGES = ("deployment.md", "operations.md", "security.md")


def blocks(page: str) -> Iterator[str]:
    """The indented blocks of a page."""
    for found in re.findall(r"(?:^    .*\n|^\n(?=    ))+", (ROOT / "docs" / page).read_text(), re.MULTILINE):
        yield "\n".join(line.removeprefix("    ") for line in found.strip("\n").splitlines())


def values() -> Iterator[str]:
    known = yaml.safe_load((CHART / "values.yaml").read_text()).keys()
    for page in PAGES:
        for block in blocks(page):
            try:
                found = yaml.safe_load(block)
            except yaml.YAMLError:
                continue
            if isinstance(found, dict) and found.keys() <= known:
                yield block


def test_there_are_values() -> None:
    assert len(list(values())) >= 3


@pytest.mark.parametrize("text", list(values()))
def test_values_are_values_of_the_chart(helm: Helm, tmp_path: Path, text: str) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(text)
    assert helm.template("-f", VALUES / "minimal.yaml", "-f", path)


async def test_the_quick_start(release: Release) -> None:
    (text,) = (block for block in blocks("deployment.md") if "helm install demo" in block)
    (install,) = re.findall(r"^(helm install (?:.*\\\n)*.*)$", text, re.MULTILINE)
    # There is no kubelet that could make anything ready, and the namespace is the test's own.
    command = install.replace(" --wait", "").replace("-n demo ", f"-n {release.namespace} ")
    path = f"{release.helm.binaries}{os.pathsep}{os.environ['PATH']}"
    known = {**os.environ, "PATH": path, "KUBECONFIG": str(release.server.target.kubeconfig)}
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", command],
        cwd=ROOT,
        env=known,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "NO RIGHTS" not in done.stdout
    assert f"rollout restart deployment/{(await release.deployment())['metadata']['name']}" in done.stdout
    assert "kubectl -n demo rollout restart deployment/demo-ctl-operator" in text
    release.uninstall()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (ROOT / "docs" / link).exists(), link
