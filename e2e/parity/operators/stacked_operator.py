"""One function for several causes, fields, resources and parameters."""

import functools

import kopf
from recording import record


@kopf.on.create("apples", param=1)
@kopf.on.update("apples", param=2)
@kopf.on.resume("apples", param=3)
def every(**kwargs):
    record("every", kwargs)


@kopf.on.field("apples", field="spec.a")
@kopf.on.field("apples", field="spec.b")
def two_fields(**kwargs):
    record("two_fields", kwargs)


@kopf.on.update("apples", id="first", param={"n": 1})
@kopf.on.update("apples", id="second", param=["n", 2])
def two_ids(**kwargs):
    record("two_ids", kwargs)
    return kwargs["param"]


@kopf.on.create("apples")
@kopf.on.create("pears")
def two_kinds(**kwargs):
    record("two_kinds", kwargs)


class Grower:
    @staticmethod
    @kopf.on.create("apples")
    def static(**kwargs):
        record("static", kwargs)
        return "static"


def outer():
    @kopf.on.create("apples")
    def inner(**kwargs):
        record("inner", kwargs)
        return "inner"


outer()


def wrapping(fn):
    @functools.wraps(fn)
    def wrapper(**kwargs):
        return fn(**kwargs)

    return wrapper


@kopf.on.create("apples")
@wrapping
def wrapped(**kwargs):
    record("wrapped", kwargs)
    return "wrapped"


def parted(said, **kwargs):
    record("parted", kwargs, said=said)
    return said


kopf.on.create("apples")(functools.partial(parted, "partial"))
kopf.on.create("apples", id="lambda")(lambda **kwargs: record("lambda", kwargs))
