"""What is remembered, in several places at once, and what is not looked at."""

import kopf
from recording import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.MultiProgressStorage(
        [
            kopf.AnnotationsProgressStorage(prefix="one.example.com"),
            kopf.StatusProgressStorage(field="status.two.progress"),
        ]
    )
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage(
        [
            kopf.AnnotationsDiffBaseStorage(prefix="one.example.com", ignored_fields=["spec.ignored"]),
            kopf.StatusDiffBaseStorage(field="status.two.base", ignored_fields=["spec.ignored"]),
        ]
    )


@kopf.on.create("apples", when=lambda spec, **_: "sticky" not in spec)
@kopf.on.update("apples")
def changed(**kwargs):
    record("changed", kwargs)


@kopf.on.create("apples", field="spec.sticky")
def sticky(**kwargs):
    record("sticky", kwargs)
    raise kopf.TemporaryError("kept", delay=1000)
