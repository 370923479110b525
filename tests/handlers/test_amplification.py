"""Nobody who may write one object can fill the log of an operator with it."""

import asyncio
import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import ctl
from ctl.handlers.loggers import ObjectSubject
from ctl.runtime.logs import JSONFormatter, LogFormat, Style, TextFormatter

from .pages import Site
from .world import KEX, LAST, World, quick

# At the beginning of a minute, as shares are counted.
pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

LARGE = "x" * 300_000
BUDGET = 256 * 1024
"""Characters of one object and minute, as the documentation says."""
SLACK = 50_000
"""For what the formats add, and for what is not about the object."""


class Written:
    """The log as `ctl run` writes it."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def __len__(self) -> int:
        return len(self.text)


@pytest.fixture(params=["text", "json"])
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    style = Style(LogFormat.FULL if request.param == "text" else LogFormat.JSON, ObjectSubject(), prefix=True)
    handler.setFormatter(TextFormatter(style) if request.param == "text" else JSONFormatter(style))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield Written(stream)
    root.setLevel(before)
    root.removeHandler(handler)


async def test_a_large_spec_in_handlers_lines_is_bounded_for_each_minute(
    world: World, site: Site, written: Written
) -> None:
    @ctl.on.event(KEX.plural)
    def fn(spec: Any, name: str, logger: ctl.Logger, **_: Any) -> None:
        logger.info("%s has %s", name, dict(spec))

    async with world.running(http=site.http):
        await world.create(spec={"large": LARGE})
        await world.create("other")
        for number in range(30):
            await world.patch({"spec": {"number": number}})
            await asyncio.sleep(0.5)
        assert len(written) < BUDGET + SLACK
        assert written.text.count("Lines about this object are dropped") == 1
        await world.patch({"spec": {"field": "still"}}, "other")
        await asyncio.sleep(1)
        assert "other has {'field': 'still'}" in written.text
        assert (await site.samples())["ctl_log_lines_dropped_total"] > 15
        before = len(written)
        await asyncio.sleep(60)
        await world.patch({"spec": {"number": 100}})
        await asyncio.sleep(1)
        assert "one has {'large': 'xxxx" in written.text[before:]


async def test_the_budget_is_a_setting(world: World, written: Written) -> None:
    @ctl.on.event(KEX.plural)
    def fn(spec: Any, logger: ctl.Logger, **_: Any) -> None:
        for _number in range(100):
            logger.info("the spec is %s", dict(spec))

    settings = quick()
    settings.diagnostics.log_budget = 10_000
    async with world.running(settings=settings):
        await world.create(spec={"large": "x" * 1000})
        await asyncio.sleep(1)
    assert written.text.count("the spec is") < 11
    before = len(written)
    settings = quick()
    settings.diagnostics.log_budget = None
    async with world.running(settings=settings):
        await asyncio.sleep(1)
    assert written.text[before:].count("the spec is") == 100


async def test_debug_lines_show_the_beginning_of_what_is_large(world: World, written: Written) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    def fn(patch: ctl.Patch, **_: Any) -> None:
        patch.status["copy"] = LARGE
        patch.fns.append(lambda body: body["spec"].update(large=LARGE))

    async with world.running():
        await world.create(annotations={"note": "y" * 100_000}, labels={"a": "b"})
        await asyncio.sleep(1)
        await world.patch({"metadata": {"annotations": {"note": "z" * 100_000}}})
        await asyncio.sleep(1)
    for line in (
        "Creation is in progress: {",
        "Updating diff: (",
        "Merge-patching the status with: {",
        "JSON-patching the ",
    ):
        assert line in written.text
    assert len(written) < 150_000


async def test_errors_that_quote_an_object_are_bounded(world: World, written: Written) -> None:
    @ctl.on.create(KEX.plural, backoff=1)
    def fn(spec: Any, **_: Any) -> None:
        raise ValueError(f"not with {spec}")

    async with world.running():
        await world.create(spec={"large": LARGE})
        await asyncio.sleep(50)
    assert "not with {'large': 'xxxx" in written.text
    assert len(written) < BUDGET + SLACK


async def test_tracebacks_of_recursion_are_cut(world: World, written: Written) -> None:
    def even(number: int) -> int:
        return odd(number + 1)

    def odd(number: int) -> int:
        return even(number + 1)

    @ctl.on.create(KEX.plural, backoff=100)
    def fn(**_: Any) -> None:
        even(0)

    async with world.running():
        await world.create()
        await world.until(lambda: "maximum recursion depth exceeded" in written.text)
    assert "maximum recursion depth exceeded" in written.text
    assert "are left out" in written.text
    assert "in even" in written.text
    assert "Traceback (most recent call last)" in written.text
    assert len(written) < 40_000


async def test_annotations_that_cannot_be_read_are_shown_in_part(world: World, written: Written) -> None:
    logging.getLogger().setLevel(logging.INFO)

    @ctl.on.create(KEX.plural, id="fn")
    def fn(**_: Any) -> None: ...

    async with world.running():
        await world.create(annotations={LAST: f'["{"y" * 100_000}"]'})
        await world.create("two", annotations={"kopf.zalando.org/fn": f'["{"y" * 100_000}"]'})
        await asyncio.sleep(20)
    assert "Repair it, or remove it" in written.text
    assert "yyyyy" in written.text
    assert "y" * 300 not in written.text
    assert len(written) < BUDGET


async def test_a_refusal_that_quotes_an_object_is_shown_in_part(world: World, written: Written) -> None:
    @ctl.on.create(KEX.plural, backoff=1)
    def fn(patch: ctl.Patch, **_: Any) -> None:
        patch.status["field"] = "a"

    said = f"spec: Invalid value: {LARGE}: no"
    world.sandbox.faults.answer(422, "Invalid", said, match=world.own_patches(), times=None)
    async with world.running():
        await world.create()
        await asyncio.sleep(30)
    assert "Invalid value: xxxx" in written.text
    assert len(written) < BUDGET
