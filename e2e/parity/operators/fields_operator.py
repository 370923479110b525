"""Handlers of fields, with values before and after."""

import kopf
from recording import record


@kopf.on.field("apples", field="spec.field")
def any_change(**kwargs):
    record("any_change", kwargs)


@kopf.on.field("apples", field=("spec", "nested", "deep"))
def deep(**kwargs):
    record("deep", kwargs)


@kopf.on.field("apples", field="spec.nested")
def nested(**kwargs):
    record("nested", kwargs)


@kopf.on.field("apples", field="spec.field", old="a", new="b")
def a_to_b(**kwargs):
    record("a_to_b", kwargs)


@kopf.on.field("apples", field="spec.field", new=kopf.ABSENT)
def removed(**kwargs):
    record("removed", kwargs)


@kopf.on.field("apples", field="spec.field", old=kopf.ABSENT, new=kopf.PRESENT)
def appeared(**kwargs):
    record("appeared", kwargs)


@kopf.on.update("apples", field="spec.field", old=lambda value, **_: value == "b")
def from_b(**kwargs):
    record("from_b", kwargs)


@kopf.on.update("apples", field="spec.number", value=lambda value, **_: isinstance(value, int) and value > 5)
def big(**kwargs):
    record("big", kwargs)


@kopf.on.create("apples", field="spec.field", value="a")
def created_with_a(**kwargs):
    record("created_with_a", kwargs)


@kopf.on.create("apples", field="spec.absent", value=kopf.ABSENT)
def created_without(**kwargs):
    record("created_without", kwargs)


@kopf.on.field("apples", field="metadata.labels.level")
def label(**kwargs):
    record("label", kwargs)


@kopf.on.field("apples", field="status.phase")
def phase(**kwargs):
    record("phase", kwargs)
