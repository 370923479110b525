"""A user's function: its default id, its file and line, and whether it can be called with any keyword arguments.

Handlers and callbacks are called with all keyword arguments of their kind, and with more of them in later releases. A function
that takes only some of them would fail at each call; it is refused when it is declared.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

from ..errors import HandlerSignatureError


def callable_id(fn: Callable[..., Any]) -> str:
    """The id of a handler whose declaration gives none: the function's qualified name, or a lambda's file and line.

    Partials and wrappers are looked through. Raises ValueError for other callables: their progress would be lost at a restart.
    """
    *_, inner = layers(fn)
    if not isinstance(inner, FunctionType | MethodType):
        message = f"Cannot get id of {fn!r}. It is no function, and has no name: give it one with id='...'."
        raise ValueError(message)  # noqa: TRY004 (as Kopf)
    if inner.__name__ == "<lambda>":
        return f"lambda:{inner.__code__.co_filename}:{inner.__code__.co_firstlineno}"
    return inner.__qualname__


def describe(fn: Callable[..., Any]) -> str:
    """The name of a function for a message, with its file and line if they are known."""
    inner: Any = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not isinstance(inner, FunctionType | MethodType):
        return repr(fn)
    code = inner.__code__
    return f"{inner.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def require_kwargs(fn: Callable[..., Any], role: str, *, positional: int = 0) -> None:
    """Check that a function can be called with any keyword arguments, after so many positional ones.

    `role` is the function's purpose in the message. A function whose signature is unknown passes. Raises HandlerSignatureError
    (a TypeError).
    """
    if not callable(fn):
        raise HandlerSignatureError(f"A {role} must be a function; got {fn!r}.")
    parameters = parameters_of(fn)
    if parameters is None:
        return
    kinds = [parameter.kind for parameter in parameters.values()]
    found = ", ".join(str(parameter) for parameter in parameters.values())
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        raise HandlerSignatureError(
            f"The {role} {describe(fn)} accepts no arbitrary keyword arguments: it is called with all arguments of its kind, "
            f"and with more of them in later releases. Expected `**kwargs` (or `**_`) at the end of its parameters; "
            f"found ({found}). Add `**_` to them."
        )
    required = [parameter for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    unfilled = [parameter.name for parameter in required if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]
    if unfilled[positional:]:
        raise HandlerSignatureError(
            f"The {role} {describe(fn)} has parameters that are never given: {', '.join(unfilled[positional:])}. "
            f"It is called with keyword arguments; found ({found}). Remove the `/` or the parameters before it."
        )
    if required and required[0].name in {"self", "cls"} and not positional:
        raise HandlerSignatureError(
            f"The {role} {describe(fn)} is a method without its object: it would be called without {required[0].name!r}. Declare the "
            f"method of an object, as in on.create('kopfexamples')(instance.method), or make it a static method."
        )


def parameters_of(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of the function, or None if they are unknown (some functions in C, signatures that are set by hand)."""
    if hasattr(fn, "__signature__"):
        return None
    try:
        # A wrapper is called itself: its own signature counts, not that of the function it wraps.
        return inspect.signature(fn, follow_wrapped=False).parameters
    except (TypeError, ValueError):
        return None


def layers(fn: Any) -> Iterator[Any]:
    """The function, then what its partials and wrappers hold, one after another."""
    yield fn
    if isinstance(fn, functools.partial):
        yield from layers(fn.func)
    elif hasattr(fn, "__wrapped__"):
        yield from layers(fn.__wrapped__)
