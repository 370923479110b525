"""Says for each published operator which differences are meant, and where `docs/compatibility.md` tells why."""

from parity.expected import Expected

_ROUND = "one-round"

EXPECTED: dict[str, tuple[Expected, ...]] = {
    # A field handler waits for what the handler of the creation puts into the status.
    "dask-kubernetes": (
        Expected("calls/*/daskcluster_create_components/0/kwargs/reason", _ROUND),
        Expected("calls/*/daskcluster_default_worker_group_replica_update/0/kwargs/*", _ROUND),
        Expected("calls/job/daskjob_create_components/0/kwargs/reason", _ROUND),
        Expected("order/*", _ROUND),
        Expected("logs/simple/-", _ROUND),
        Expected("logs/job/-", _ROUND),
    ),
    "pass-operator": (
        Expected("objects/PassSecret/one/metadata/annotations/*/kopf-managed", "marks-where-records-are"),
    ),
}
"""Operator -> what is different, in the steps in which it is seen."""
