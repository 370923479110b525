"""What the documentation tells to type exists: commands with their options, targets of make, files, and headings."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ctl.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")])
RUN = {"controllers.md", "guide.md", "informers.md", "migrating-from-kopf.md"}
"""Pages whose Python is run by `test_docs.py`, block after block."""

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)">')


def typed(page: Path) -> Iterator[str]:
    """The lines that are to be typed: in fenced blocks of a shell, and those indented by four."""
    fence: str | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            fence = None if fence is not None else line.strip().removeprefix("```")
        elif fence in {"bash", "sh"} or (fence is None and line.startswith("    ")):
            yield line.strip().removeprefix("$ ")


def commands(page: Path) -> list[list[str]]:
    """Each call of `ctl`, split as a shell does it, up to pipes and redirections."""
    found = []
    for line in typed(page):
        words = shlex.split(line.partition(" #")[0]) if "ctl " in line and "'" * 3 not in line else []
        for start, word in enumerate(words):
            if word == "ctl" and (start == 0 or "=" in words[start - 1]):
                ends = [at for at, one in enumerate(words) if at > start and one in {"|", ">", "&", "&&"}]
                found.append([one for one in words[start + 1 : min(ends, default=len(words))] if one != "..."])
    return found


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def parse(command: click.Command, words: list[str]) -> None:
    """Parse a command line, and run nothing. Raises click's usage errors."""
    if isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        parse(found, words[1:])
    else:
        command.make_context("ctl", list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_are_given(page: Path) -> None:
    for words in commands(page):
        if words and words[0] in {"--help", "-h", "--version"}:
            continue
        try:
            parse(main, words)
        except click.ClickException as exc:
            pytest.fail(f"{page.name}: ctl {shlex.join(words)}: {exc.format_message()}")


def test_commands_are_found() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            text = target.read_text(encoding="utf-8")
            assert anchor in {*map(slug, HEADING.findall(text)), *ANCHOR.findall(text)}, link


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"(?:^    |`)make ([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert {(page, name) for page, name in named if name not in targets} == set()


def test_all_python_is_run() -> None:
    with_python = {
        page.name for page in (ROOT / "docs").glob("*.md") if "```python" in page.read_text(encoding="utf-8")
    }
    assert with_python == RUN


def test_the_operator_of_the_readme_is_the_first_example() -> None:
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    example = (ROOT / "examples" / "01-minimal" / "example.py").read_text(encoding="utf-8")
    assert block.partition("@")[2] == example.partition("@")[2]
