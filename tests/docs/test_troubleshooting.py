"""What `docs/troubleshooting.md` quotes is what the code says, and what the code says loudly is on the page."""

import re
from pathlib import Path

import pytest

from . import messages
from .messages import normalised

PAGE = messages.ROOT / "docs" / "troubleshooting.md"
QUOTE = re.compile(r"^(?:`([^`]+)`|``(.+) ``)(?:, with [^`]+)?\\$")
SHORTEST = 12
"""What is shorter, placeholders aside, is no quote that identifies a message."""

ELSEWHERE = {
    "The watch of ... recovered.": "said at the end of trouble, quoted beside what began it",
    "Warning": "a type of Kubernetes Event, not a message",
    "the annotation ...": "a part of the message of StoredStateError, which is quoted as a whole",
    "the data 'records'": "the same",
    "it is no JSON": "the same",
    "it is no uid with a digest": "the same",
    "... Controller ..., key ..., attempt": "the frame around the sentences about attempts, which are quoted",
    "... has failed: ...": "the frame of a failed login, whose reasons are quoted",
}
"""Loud texts that the page need not quote, and why."""


def quotes() -> list[str]:
    """The messages that the page quotes: lines that are code, and end with a break."""
    lines = (QUOTE.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines())
    texts = (normalised(line[1] or line[2]) for line in lines if line)
    return [text for text in texts if len(text.replace("...", "")) >= SHORTEST]


def _fits(quote: str, text: str) -> bool:
    """Whether the quote is a part of the text; `...` of the quote stands for anything."""
    parts = [re.escape(part) for part in quote.removeprefix("...").strip().split("...")]
    return re.search(".*?".join(parts), text) is not None


def test_each_quote_is_what_the_code_says() -> None:
    said = messages.all_strings().splitlines()
    missing = [quote for quote in quotes() if not any(_fits(quote, text) for text in said)]
    assert not missing, "\n".join(["docs/troubleshooting.md quotes what the package does not say any more:", *missing])
    assert len(quotes()) > 150


def test_each_loud_message_is_on_the_page() -> None:
    known = [*quotes(), *ELSEWHERE]
    found = [message for message in messages.messages() if message.loud]
    missing = [f"{one.where}: {one.text}" for one in found if not any(_fits(quote, one.text) for quote in known)]
    assert not missing, "\n".join(
        ["Name these warnings and errors in docs/troubleshooting.md, with cause and cure (or in ELSEWHERE):", *missing]
    )
    assert len(found) > 150


def test_the_exceptions_are_needed() -> None:
    said = messages.all_strings().splitlines()
    assert [text for text in ELSEWHERE if not any(_fits(text, one) for one in said)] == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("def f():\n    logger.warning('It is %s for %.1f s.', a, b)", "It is ... for ... s."),
        ("def f():\n    raise AccessError(f'The file {name!r} is broken: {why}.')", "The file ... is broken: ..."),
        ("def f():\n    logger.log(logging.ERROR, 'Broken.%s', x)", "Broken...."),
        ("def f():\n    text = f'Broken {x} here.'\n    return Verdict(1, logging.ERROR, text)", "Broken ... here."),
    ],
)
def test_messages_are_found_in_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, text: str) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "one.py").write_text(code)
    monkeypatch.setattr(messages, "ROOT", tmp_path)
    found = messages.messages()
    assert [(one.text, one.loud) for one in found] == [(normalised(text), True)]
    assert found[0].where.startswith("cli/one.py:")
