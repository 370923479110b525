"""Indices of all shapes, and who finds them."""

import kopf
from recording import record, without

INDICES = ("by_field", "renamed", "scalars", "labelled", "nothing", "texts", "unsteady", "fragile")


@kopf.index("apples")
def by_field(spec, name, **_):
    return {spec.get("field"): name}


@kopf.index("apples", id="renamed")
async def several(spec, name, **kwargs):
    if name == "noted":
        record("index", {**without(kwargs, *INDICES), "spec": spec, "name": name})
    return {key: {"of": name} for key in spec.get("keys", [])}


@kopf.index("apples")
def scalars(name, **_):
    return name


@kopf.index("apples", labels={"indexed": "yes"})
def labelled(namespace, name, **_):
    return {(namespace, name): 1}


@kopf.index("apples")
def nothing(**_):
    return None


@kopf.index("configmaps", field="data.text")
def texts(name, body, **_):
    return {name: body["data"]["text"]}


@kopf.index("apples")
def unsteady(spec, name, **_):
    if spec.get("broken"):
        raise ValueError("the old values stay")
    return {"values": spec.get("field")}


@kopf.index("apples", errors=kopf.ErrorsMode.PERMANENT)
def fragile(spec, name, **_):
    if spec.get("broken"):
        raise ValueError("never again")
    return {"values": spec.get("field")}


@kopf.on.create("apples", labels={"look": "yes"})
def look(**kwargs):
    record("look", kwargs)


@kopf.on.update("apples", when=lambda by_field, name, **_: name in by_field.get("here", []))
def filtered(by_field, **kwargs):
    record("filtered", {**kwargs, "by_field": by_field}, truth=bool(by_field), size=len(by_field["here"]))


@kopf.on.startup()
def started(by_field, texts, **kwargs):
    record("started", {**kwargs, "by_field": by_field}, truth=[bool(by_field), bool(texts)], size=len(texts))
