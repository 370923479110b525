"""Kinds of the cluster's own: config maps, secrets, pods, services."""

import kopf
from recording import record


@kopf.on.create("configmaps", labels={"ours": "yes"})
@kopf.on.update("configmaps", labels={"ours": "yes"})
def config(patch, **kwargs):
    record("config", kwargs)
    if kwargs["reason"] == "create":
        patch.setdefault("data", {})["added"] = "by the handler"


@kopf.on.field("configmaps", field="data.a", labels={"fields": "yes"})
def config_field(**kwargs):
    record("config_field", kwargs)


@kopf.on.delete("", "v1", "secrets", labels={"ours": "yes"})
def secret_deleted(**kwargs):
    record("secret_deleted", {key: kwargs[key] for key in ("name", "reason", "body", "resource")})


@kopf.on.create("pods")
def pod(patch, **kwargs):
    record("pod", {key: kwargs[key] for key in ("name", "reason", "resource", "labels", "body")}, image=_image(kwargs))
    patch.meta.annotations["seen"] = "yes"


def _image(kwargs):
    return kwargs["spec"]["containers"][0]["image"]


@kopf.on.event("v1", "events")
def event(event, **kwargs):
    record("event", {"name": kwargs["name"]}, reason=event["object"]["reason"])
