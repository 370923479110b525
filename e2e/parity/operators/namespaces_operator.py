"""Namespaces by patterns, that come and go."""

import kopf
from recording import record


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)


@kopf.on.event("pears")
def event(**kwargs):
    record("event", {key: kwargs[key] for key in ("name", "namespace", "type", "resource")})
