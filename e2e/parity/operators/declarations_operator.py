"""What cannot be declared, and how that is refused."""

import kopf
from recording import record


def fn(**_):
    pass


def refused(name, declare):
    try:
        declare()
    except Exception as error:
        record("refused", {}, what=name, kind=type(error).__name__)
    else:
        record("accepted", {}, what=name)


class Callable:
    def __call__(self, **_):
        pass


registry = kopf.OperatorRegistry()
CASES = {
    "a label of None": lambda: kopf.on.create("apples", labels={"a": None}, registry=registry)(fn),
    "an annotation of None": lambda: kopf.on.create("apples", annotations={"a": None}, registry=registry)(fn),
    "a value without a field": lambda: kopf.on.create("apples", value=1, registry=registry)(fn),
    "old without a field": lambda: kopf.on.update("apples", old=1, registry=registry)(fn),
    "value and old": lambda: kopf.on.update("apples", field="f", value=1, old=1, registry=registry)(fn),
    "no resource": lambda: kopf.on.create(registry=registry)(fn),
    "four parts": lambda: kopf.on.create("a", "b", "c", "d", registry=registry)(fn),
    "an empty name": lambda: kopf.on.create("", registry=registry)(fn),
    "two names": lambda: kopf.on.create("apples", kind="Apple", registry=registry)(fn),
    "a callable object": lambda: kopf.on.create("apples", registry=registry)(Callable()),
    "a callable object with an id": lambda: kopf.on.create("apples", id="x", registry=registry)(Callable()),
    "a sub-handler nowhere": lambda: kopf.subhandler()(fn),
    "register nowhere": lambda: kopf.register(fn),
    "a field handler without a field": lambda: kopf.on.field("apples", registry=registry)(fn),
    "an unknown option": lambda: kopf.on.create("apples", unknown=1, registry=registry)(fn),
    "old of a creation": lambda: kopf.on.create("apples", field="f", old=1, registry=registry)(fn),
    "retries of an event": lambda: kopf.on.event("apples", retries=1, registry=registry)(fn),
    "operations of none": lambda: kopf.on.validate("apples", operations=[], registry=registry)(fn),
    "an annotations prefix of nothing": lambda: kopf.AnnotationsProgressStorage(prefix=""),
    "a worker less than one": lambda: setattr(kopf.OperatorSettings().execution, "max_workers", 0),
    "a lifecycle": lambda: kopf.get_default_lifecycle()([], state={}),
}
for name, declare in CASES.items():
    refused(name, declare)


@kopf.on.event("apples")
def event(**kwargs):
    record("event", {"name": kwargs["name"]})

    try:
        kopf.subhandler()(fn)
    except Exception as error:
        record("in an event handler", {}, kind=type(error).__name__)
