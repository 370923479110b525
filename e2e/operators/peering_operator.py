"""A part of an operator: its record counts for LIFETIME seconds."""

import os

import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.peering.lifetime = int(os.environ.get("LIFETIME", "60"))
