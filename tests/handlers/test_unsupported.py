"""What is not there is refused at the start with one sentence, never ignored."""

import pytest

from ctl import on
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.running.operator import operator


async def test_an_unknown_option_is_named_with_those_that_are_known() -> None:
    with pytest.raises(TypeError, match=r"operator\(\) does not know insights; it knows lifecycle, registry"):
        await operator(registry=OperatorRegistry(), clusterwide=True, insights="me")  # type: ignore[call-arg]


async def test_an_option_of_kopf_that_is_none_is_as_good_as_not_given() -> None:
    with pytest.raises(TypeError, match="Got both"):
        await operator(registry=OperatorRegistry(), namespaces=["a"], namespace="b", insights=None)  # type: ignore[call-arg]


async def test_admission_handlers_are_refused_by_name() -> None:
    registry = OperatorRegistry()

    @on.validate("kopfexamples", registry=registry)
    def check_fn(**_: object) -> None: ...

    with pytest.raises(NotImplementedError, match=r"these are declared: .*check_fn"):
        await operator(registry=registry, clusterwide=True)
