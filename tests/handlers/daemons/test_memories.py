"""What is remembered of an object that is left alone for a while."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctl.handlers.environment.memories import Memo, Memories


def _generator(memo: Memo) -> Iterator[Memo]:
    while True:
        yield memo


def _started(memo: Memo) -> Iterator[Memo]:
    found = _generator(memo)
    next(found)
    return found


HOLDERS: dict[str, Callable[[Memo], Any]] = {
    "a name": lambda memo: memo,
    "a list": lambda memo: [memo],
    "a closure": lambda memo: lambda: memo,
    "a frame": _started,
    "a method": lambda memo: memo.keys,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_memo_that_is_held_by_anybody_stays_the_objects_memo(holder: str) -> None:
    memories, operators = Memories(), Memo(color="red")
    held = HOLDERS[holder](memories.memo("uid", operators))
    for _ in range(3):
        memories.rest("uid", operators)
    again = memories.memo("uid", operators)
    again.seen = True
    known: Memo = {
        "a name": lambda: held,
        "a list": lambda: held[0],
        "a closure": held,
        "a frame": lambda: next(held),
        "a method": lambda: held.__self__,
    }[holder]()
    assert known is again


def test_a_memo_that_nobody_holds_is_kept_only_if_something_was_put_in() -> None:
    memories, operators = Memories(), Memo(color="red")
    seen = [weakref.ref(memories.memo(f"uid-{number}", operators)) for number in range(10)]
    memories.memo("uid-3", operators).color = "blue"
    for number in range(10):
        memories.rest(f"uid-{number}", operators)
    gc.collect()
    assert [number for number, memo in enumerate(seen) if memo() is not None] == [3]
    assert memories.memo("uid-3", operators) == {"color": "blue"}
