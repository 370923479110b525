"""Secrets: what handlers, filters and sub-handlers are told of values, before and after."""

import base64

import kopf
from recording import record, without

OURS = {"ours": "yes"}


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@kopf.on.create("v1", "secrets", labels=OURS)
@kopf.on.update("v1", "secrets", labels=OURS)
def whole(**kwargs):
    record("whole", without(kwargs, "patch"))


@kopf.on.field("v1", "secrets", field="data.a", labels=OURS)
def field(old, new, diff, **kwargs):
    decoded = [base64.b64decode(value or "").decode() for value in (old, new)]
    record("field", {"name": kwargs["name"]}, decoded=decoded, diff=diff)


@kopf.on.update("v1", "secrets", field="data.a", old=encoded("one"), new=encoded("two"), labels=OURS)
def literal(**kwargs):
    record("literal", {"name": kwargs["name"]}, old=kwargs["old"], new=kwargs["new"])


@kopf.on.update("v1", "secrets", field="data.a", value=lambda value, **_: value == encoded("two"), labels=OURS)
def callback(**kwargs):
    record("callback", {"name": kwargs["name"]}, old=kwargs["old"], new=kwargs["new"])


@kopf.on.update("v1", "secrets", field="data.b", labels=OURS)
def parent(**_):
    @kopf.subhandler(id="child")
    def child(old, new, diff, retry, **kwargs):
        record("child", {"name": kwargs["name"]}, old=old, new=new, diff=diff, retry=retry)
        if not retry:
            raise kopf.TemporaryError("once more", delay=0.2)
