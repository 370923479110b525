"""Long texts of others are shown in part.

Pure.
"""

SHORT = 200
"""So many characters are shown of a value in a sentence."""


def cut(text: str, limit: int = SHORT) -> str:
    """A text of at most that length as it is; of a longer one the beginning, and how long it is."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters in all)"


def cut_inside(text: str, head: int, tail: int) -> str:
    """The same with the end, too: of so many characters of the beginning and the end, up to the borders of lines where there are some."""
    if len(text) <= head + tail:
        return text
    first, last = text[:head], text[-tail:]
    first = first[: first.rfind("\n") + 1] or first
    last = last[last.find("\n") + 1 :] or last
    return f"{first}... ({len(text) - len(first) - len(last)} characters are left out) ...\n{last}"
