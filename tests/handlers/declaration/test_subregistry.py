import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctl import on
from ctl.handlers.causes.causes import ChangingCause
from ctl.handlers.declaration.registry import OperatorRegistry, SubRegistry, current_subregistry
from ctl.handlers.declaration.specs import HandlerSpec

from ..handling import handling

Changing = Callable[..., ChangingCause]


def parent(**_: Any) -> None: ...


def child(**_: Any) -> None: ...


def running(changing: Changing, declare: Callable[..., Any], **options: Any) -> SubRegistry:
    registry = OperatorRegistry()
    declare("kex", registry=registry, **options)(parent)
    reason = "update" if declare in {on.update, on.field} else "create"
    [spec] = registry.changing(changing(reason, old={"f": 0}, new={"f": 1}))
    return entered(spec)


def entered(spec: HandlerSpec) -> SubRegistry:
    subregistry = SubRegistry(spec)
    current_subregistry.set(subregistry)
    return subregistry


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    token = current_subregistry.set(SubRegistry(None))  # type: ignore[arg-type]
    yield
    current_subregistry.reset(token)


def test_ids_are_below_the_parents_and_have_no_field(changing: Changing) -> None:
    subregistry = running(changing, on.field, field="f")
    on.subhandler()(child)
    on.subhandler(id="item", field="a.b")(child)
    on.register(child, id="imperative")
    assert [spec.id for spec in subregistry.specs] == ["parent/f/child", "parent/f/item", "parent/f/imperative"]
    entered(subregistry.specs[0])
    on.register(child)
    assert current_subregistry.get().specs[0].id == "parent/f/child/child"


def test_filters_and_duplicates(changing: Changing) -> None:
    subregistry = running(changing, on.create)
    on.subhandler(labels={"a": "1"})(child)
    on.subhandler(id="b", labels={"a": "2"})(child)
    on.register(parent, when=lambda **_: True, param=1)
    on.register(parent, param=2)
    cause = changing("create", new={}, body={"metadata": {"labels": {"a": "1"}}})
    assert [(spec.id, spec.param) for spec in subregistry.changing(cause)] == [
        ("parent/child", None),
        ("parent/parent", 1),
    ]


@pytest.mark.parametrize(("declare", "options"), [(on.update, {}), (on.field, {"field": "f"})])
def test_changes_of_fields_need_a_parent_that_reacts_to_them(changing: Changing, declare: Any, options: Any) -> None:
    subregistry = running(changing, declare, **options)
    on.subhandler(field="f", old=0, new=1)(child)
    assert [spec.field_needs_change for spec in subregistry.specs] == [True]
    running(changing, on.create)
    with pytest.raises(TypeError, match="update or field handler"):
        on.subhandler(field="f", old=0)


def test_only_handlers_of_changes_have_parts(changing: Changing) -> None:
    registry = OperatorRegistry()
    on.startup(registry=registry)(parent)
    entered(registry.activities(next(iter(registry._activities)).activity)[0])
    with pytest.raises(TypeError, match="only supported for resource-changing handlers"):
        on.subhandler()


def test_filters_of_values_need_a_field_here_too(changing: Changing) -> None:
    running(changing, on.update)
    with pytest.raises(TypeError, match="field="):
        on.subhandler(old=1)


def test_where_no_handler_runs_there_are_no_parts() -> None:
    with pytest.raises(LookupError, match="none runs here"):
        contextvars.Context().run(on.subhandler)
    with pytest.raises(LookupError, match="none runs here"):
        contextvars.Context().run(on.register, child)


def test_handlers_of_other_kinds_have_no_parts(changing: Changing) -> None:
    def in_a_handler() -> None:
        with handling(changing("create")):
            on.register(child)

    with pytest.raises(TypeError, match="none runs here"):
        contextvars.Context().run(in_a_handler)
