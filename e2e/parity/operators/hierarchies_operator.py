"""Children of objects: adopted, labelled, named; each helper alone and on what it takes."""

import kopf
from recording import record


@kopf.on.create("apples")
def created(body, namespace, name, **kwargs):
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "spec": {"template": {}}}
    kopf.adopt(child)
    record("adopted", {}, child=child)
    named = {"metadata": {"name": "mine", "namespace": "elsewhere", "labels": {"l": "kept"}}}
    kopf.adopt([named], nested=["spec.template"])
    record("adopted_named", {}, child=named)
    forced = {"metadata": {"name": "mine", "namespace": "elsewhere", "labels": {"l": "lost"}}, "spec": {"template": {}}}
    kopf.adopt(forced, owner=body, forced=True, strict=True, nested="spec.template")
    record("forced", {}, child=forced)
    shared, owners = {"app": "x"}, [{"uid": "other"}]
    sharing = {"metadata": {"labels": shared, "ownerReferences": owners}, "spec": {"selector": {"matchLabels": shared}}}
    kopf.adopt(sharing)
    record("sharing", {}, child=sharing, labels=shared, owners=owners, same=sharing["metadata"]["labels"] is shared)
    kopf.remove_owner_reference(sharing)
    record("sharing_bare", {}, owners=owners)
    several = [{}, ({"metadata": {}}, [{"spec": {"jobTemplate": {"spec": {}}}}])]
    kopf.label(several, {"a": "b"}, nested=["spec.jobTemplate"])
    kopf.harmonize_naming(several)
    kopf.adjust_namespace(several)
    kopf.append_owner_reference(several, controller=False, block_owner_deletion=False)
    kopf.append_owner_reference(several)
    record("several", {}, children=several)
    kopf.remove_owner_reference(several)
    kopf.adjust_namespace(several, None, forced=True)
    kopf.harmonize_naming(several, "other", forced=True, strict=True)
    record("several_bare", {}, children=several)
    iterated = [{}, {}]
    kopf.label(iter(iterated), {"x": "y"}, forced=True)
    record("iterated", {}, children=iterated)
    record(
        "references",
        {},
        object=kopf.build_object_reference(body),
        owner=kopf.build_owner_reference(body),
        other=kopf.build_owner_reference(body, controller=None, block_owner_deletion=None),
        bare=kopf.build_object_reference({"kind": "Bare", "metadata": {"name": ""}}),
    )
    for wrong in (None, 1, object()):
        try:
            kopf.adopt(wrong)
        except TypeError:
            record("refused", {}, what=type(wrong).__name__)


@kopf.on.startup()
def started(**_):
    try:
        kopf.adopt({})
    except LookupError as error:
        record("started", {}, error=str(error))
    bare = {}
    kopf.adopt(bare, owner={"apiVersion": "v1", "kind": "Tree", "metadata": {"name": "oak", "uid": "u"}})
    record("started_owned", {}, child=bare)


@kopf.on.event("apples")
async def event(**_):
    child = {}
    kopf.adopt(child)
    record("event", {}, child=child)
