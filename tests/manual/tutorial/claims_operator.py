"""Ephemeral volume claims, the operator that the manual's tutorial builds: a claim for a volume follows each of them.

It uses the `kubernetes` package as the tutorial does: without a word on where the server is, or who we are.
"""

from pathlib import Path

import kopf
import kubernetes
import yaml

TEMPLATE = Path(__file__).with_name("pvc.yaml")


def size_of(spec):
    size = spec.get("size")
    if not size:
        raise kopf.PermanentError(f"A claim needs a size; got {size!r}.")
    return size


@kopf.on.create("ephemeralvolumeclaims")
def create_fn(spec, name, namespace, logger, **_):
    child = yaml.safe_load(TEMPLATE.read_text().format(name=name, size=size_of(spec)))
    kopf.adopt(child)
    made = kubernetes.client.CoreV1Api().create_namespaced_persistent_volume_claim(namespace=namespace, body=child)
    logger.info("Made the volume claim %s.", made.metadata.name)
    return {"pvc-name": made.metadata.name}


@kopf.on.update("ephemeralvolumeclaims")
def resize(spec, status, namespace, logger, **_):
    change = {"spec": {"resources": {"requests": {"storage": size_of(spec)}}}}
    name = status["create_fn"]["pvc-name"]
    kubernetes.client.CoreV1Api().patch_namespaced_persistent_volume_claim(name, namespace, change)
    logger.info("The volume claim %s has its size.", name)


@kopf.on.field("ephemeralvolumeclaims", field="metadata.labels")
def relabel(diff, status, namespace, **_):
    if "create_fn" not in status:
        return  # it is being created, with its labels
    labels = {}
    for _, field, old, new in diff:
        # All labels at once come and go as one change of the whole field.
        labels.update(
            {field[0]: new} if field else {key: (new or {}).get(key) for key in {**(old or {}), **(new or {})}}
        )
    name = status["create_fn"]["pvc-name"]
    kubernetes.client.CoreV1Api().patch_namespaced_persistent_volume_claim(
        name, namespace, {"metadata": {"labels": labels}}
    )
