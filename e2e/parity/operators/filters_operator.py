"""Filters of labels, annotations and callbacks."""

import kopf
from recording import record


def in_season(value, spec, **_):
    return value in {"red", "green"} and not spec.get("rotten")


@kopf.on.create("apples", labels={"colour": "red"})
def red(**kwargs):
    record("red", kwargs)


@kopf.on.create("apples", labels={"colour": kopf.PRESENT})
def coloured(**kwargs):
    record("coloured", kwargs)


@kopf.on.create("apples", labels={"colour": kopf.ABSENT})
def colourless(**kwargs):
    record("colourless", kwargs)


@kopf.on.create("apples", labels={"colour": in_season})
def called_back(**kwargs):
    record("called_back", kwargs)


@kopf.on.create("apples", annotations={"note": "x", "other": kopf.ABSENT})
def noted(**kwargs):
    record("noted", kwargs)


@kopf.on.create("apples", when=kopf.all_([lambda name, **_: name != "two", lambda reason, **_: reason == "create"]))
def all_of(**kwargs):
    record("all_of", kwargs)


@kopf.on.create("apples", when=kopf.any_([lambda name, **_: name == "two", lambda labels, **_: "size" in labels]))
def any_of(**kwargs):
    record("any_of", kwargs)


@kopf.on.create("apples", when=kopf.none_([lambda name, **_: name == "two"]))
def none_of(**kwargs):
    record("none_of", kwargs)


@kopf.on.create("apples", when=kopf.not_(lambda name, **_: name == "two"))
def not_two(**kwargs):
    record("not_two", kwargs)


@kopf.on.update("apples", labels={"colour": "red"})
def red_updated(**kwargs):
    record("red_updated", kwargs)


@kopf.on.delete("apples", labels={"colour": "red"})
def red_deleted(**kwargs):
    record("red_deleted", kwargs)


def noting(**kwargs):
    record("noting", {key: value for key, value in kwargs.items() if key != "patch"})
    return True


@kopf.on.create("apples", labels={"asked": "yes"}, when=noting)
def asked(**kwargs):
    record("asked", kwargs)
