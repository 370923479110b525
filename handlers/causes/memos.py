"""A memo keeps whatever handlers want to remember of one object, in memory only."""

from typing import Any


class Memo(dict[str, Any]):
    """A dict whose keys are attributes too, those aside that are methods of dict.

    An object's memo starts as a shallow copy of the operator's memo. An absent attribute raises AttributeError, an absent
    key KeyError.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"The memo has no {name!r}; it has: {', '.join(map(repr, self)) or 'nothing'}."
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"The memo has no {name!r} to delete.") from None

    def __copy__(self) -> "Memo":
        return type(self)(self)
