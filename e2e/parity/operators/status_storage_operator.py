"""What is remembered, in the status."""

import kopf
from recording import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.StatusProgressStorage(name="orchard")
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(name="orchard")


@kopf.on.create("apples", when=lambda spec, **_: "sticky" not in spec)
@kopf.on.update("apples")
def changed(**kwargs):
    record("changed", kwargs)


@kopf.on.create("apples", field="spec.sticky")
def sticky(**kwargs):
    record("sticky", kwargs)
    raise kopf.TemporaryError("kept", delay=1000)
