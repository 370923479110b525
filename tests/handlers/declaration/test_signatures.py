import functools
import inspect
import re
from typing import Any
from unittest.mock import Mock

import pytest

from ctl.handlers.declaration.signatures import callable_id, describe, require_kwargs
from ctl.handlers.errors import HandlerSignatureError


def fn(**_: Any) -> None: ...


def narrow(spec: Any, name: str) -> None: ...


class Cls:
    def method(self, **_: Any) -> None: ...

    @staticmethod
    def static(**_: Any) -> None: ...

    @classmethod
    def cls(cls, **_: Any) -> None: ...

    def __call__(self, **_: Any) -> None: ...


def wrapped(inner: Any) -> Any:
    @functools.wraps(inner)
    def wrapper(**kwargs: Any) -> Any:
        return inner(**kwargs)

    return wrapper


# What Kopf 1.45.2 calls them.
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (fn, "fn"),
        (Cls().method, "Cls.method"),
        (Cls.static, "Cls.static"),
        (Cls.__dict__["static"], "Cls.static"),
        (Cls.cls, "Cls.cls"),
        (functools.partial(fn, x=1), "fn"),
        (wrapped(fn), "fn"),
        (functools.partial(functools.partial(wrapped(fn))), "fn"),
    ],
)
def test_ids(function: Any, expected: str) -> None:
    assert callable_id(function) == expected


def test_a_nested_function_is_named_by_its_place() -> None:
    def inner(**_: Any) -> None: ...

    assert callable_id(inner) == "test_a_nested_function_is_named_by_its_place.<locals>.inner"


def test_a_lambda_is_named_by_file_and_line() -> None:
    function = lambda **_: None  # noqa: E731
    line = function.__code__.co_firstlineno
    assert callable_id(function) == f"lambda:{__file__}:{line}"


@pytest.mark.parametrize("function", [Cls(), print, Mock()])
def test_what_has_no_name_needs_an_id(function: Any) -> None:
    with pytest.raises(ValueError, match="id="):
        callable_id(function)


@pytest.mark.parametrize(
    "function",
    [
        fn,
        Cls().method,
        Cls.static,
        Cls(),
        functools.partial(fn, x=1),
        lambda *_, **__: None,
        Mock(),
        dict,
        wrapped(narrow),
    ],
)
def test_what_accepts_keyword_arguments_or_cannot_be_inspected_passes(function: Any) -> None:
    require_kwargs(function, "handler")


def test_the_refusal_says_which_function_where_why_and_what_to_do() -> None:
    line = narrow.__code__.co_firstlineno
    with pytest.raises(HandlerSignatureError) as caught:
        require_kwargs(narrow, "handler of @on.create")
    text = str(caught.value)
    assert text.startswith(
        f"The handler of @on.create narrow ({__file__}:{line}) accepts no arbitrary keyword arguments"
    )
    assert "found (spec: Any, name: str)" in text
    assert text.endswith("Add `**_` to them.")
    assert isinstance(caught.value, TypeError)


def test_a_wrapper_that_narrows_is_refused_although_it_wraps_one_that_does_not() -> None:
    def narrow_wrapper(spec: Any) -> None: ...

    place = re.escape(f"{__file__}:{narrow_wrapper.__code__.co_firstlineno}")
    wrapper = functools.wraps(fn)(narrow_wrapper)
    with pytest.raises(HandlerSignatureError, match=rf"{place}.*found \(spec\)"):
        require_kwargs(wrapper, "handler")


def test_positional_only_parameters_are_for_values() -> None:
    def check(value: Any, /, **_: Any) -> bool:
        return bool(value)

    require_kwargs(check, "callback", positional=1)
    with pytest.raises(HandlerSignatureError, match="never given: value"):
        require_kwargs(check, "handler")


def test_a_signature_that_is_made_up_says_nothing_of_the_call() -> None:
    def injected(**kwargs: Any) -> None: ...

    made_up: Any = injected
    made_up.__signature__ = inspect.signature(narrow)
    require_kwargs(made_up, "handler")


@pytest.mark.parametrize("function", [Cls.method, Cls.__dict__["method"], Cls.__dict__["cls"].__func__])
def test_a_method_without_its_object_is_refused(function: Any) -> None:
    with pytest.raises(HandlerSignatureError, match="is a method without its object"):
        require_kwargs(function, "handler")


def test_what_is_no_function_is_refused() -> None:
    not_a_function: Any = "fn"
    with pytest.raises(HandlerSignatureError, match="got 'fn'"):
        require_kwargs(not_a_function, "handler")


def test_a_callable_object_is_described_by_its_repr() -> None:
    thing = Cls()
    assert describe(thing) == repr(thing)
