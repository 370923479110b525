"""The pulse of a loop tells another thread whether that loop still turns."""

import asyncio


class Pulse:
    """Asks a loop to answer, over and over; belongs to one other thread.

    A loop that is closed has no pulse; one that is merely idle has.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        """`limit`: how many seconds an answer may take."""
        self._loop = loop
        self._limit = limit
        # Since when an answer is outstanding; None: the last question was answered.
        self._asked: float | None = None

    def feel(self, now: float) -> bool:
        """Ask, and tell whether the loop is alive for all that is known; `now` is in seconds of any clock that does not go back."""
        # Read once: the answer comes from the other thread, at any moment.
        asked = self._asked
        if asked is None:
            asked = self._asked = now
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                # It is closed: the answer will never come.
                asked = self._asked = now - self._limit
        return now - asked < self._limit

    def _answer(self) -> None:
        self._asked = None
