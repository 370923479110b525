"""What the values do that handlers are given."""

import copy
import json

import kopf
from recording import record


def tried(fn):
    try:
        return fn()
    except Exception as error:
        return type(error).__name__


@kopf.on.create("apples")
def views(body, spec, meta, status, labels, annotations, resource, **_):
    record(
        "views",
        {},
        absent=[status.get("x"), tried(lambda: status["x"]), len(status), bool(status), list(labels)],
        same=[
            body.meta == body.metadata,
            meta == body["metadata"],
            spec == body["spec"],
            spec == {"field": {"a": [1]}},
        ],
        refused=[
            tried(lambda: spec.__setitem__("x", 1)),
            tried(lambda: body.__setitem__("x", 1)),
            tried(lambda: labels.__setitem__("x", "1")),
        ],
        names=[meta.name, meta.namespace, type(meta.uid).__name__, meta.deletion_timestamp],
        created=type(meta.creation_timestamp).__name__,
        kinds=[isinstance(body, dict), isinstance(spec, dict), type(dict(body)).__name__, type(spec["field"]).__name__],
        dumped=json.loads(json.dumps(dict(spec))),
        copied=[copy.deepcopy(dict(spec)), dict(spec) == spec, "field" in spec, list(spec.items())],
        body=[body.get("status"), body.status.get("a"), body.spec["field"]["a"]],
        annotations=[annotations.get("n"), body.metadata.annotations.get("n"), body.meta.labels.get("none", "default")],
    )
    record(
        "resource",
        {},
        parts=list(resource),
        names=[
            resource.plural,
            resource.kind,
            resource.singular,
            sorted(resource.shortcuts),
            sorted(resource.categories),
        ],
        flags=[resource.namespaced, resource.preferred, sorted(resource.verbs), sorted(resource.subresources)],
        shown=[repr(resource), str(resource)],
        equal=[resource == kopf.Resource(*resource), hash(resource) == hash(kopf.Resource(*resource))],
        urls=[
            tried(lambda: resource.get_url(namespace="ns")),
            tried(lambda: resource.get_url(namespace="ns", name="n", subresource="status")),
            tried(lambda: resource.get_url(server="http://x", namespace=None)),
            tried(lambda: resource.get_url(namespace="ns", subresource="status")),
            tried(lambda: resource.get_url(namespace="ns", params={"a": "b"})),
        ],
    )


@kopf.on.update("apples")
def changes(diff, old, new, reason, **_):
    item = diff[0]
    record(
        "changes",
        {},
        diff=[list(one) for one in diff],
        shown=[str(reason), repr(item.op.value), item.field, item.operation.value, item[0], len(diff)],
        equal=[
            diff == tuple(diff),
            item == tuple(item),
            item.operation == "change",
            reason == kopf.Reason.UPDATE,
            reason == "update",
        ],
        kinds=[type(old).__name__, type(new).__name__, isinstance(diff, tuple), isinstance(item, tuple)],
    )


@kopf.on.startup()
def values(**_):
    patch = kopf.Patch({"spec": {"a": 1}})
    states = [bool(kopf.Patch()), bool(patch)]
    patch.meta.labels["x"] = "y"
    patch.status["deep"] = {"b": None, "c": 1}
    patch.fns.append(lambda body: body.setdefault("top", {}).update(z=1))
    shown = dict(patch)
    operations = patch.as_json_patch({"spec": {"a": 0}, "metadata": {}, "status": {"deep": {"b": 2}}})
    states += [tried(lambda: kopf.Patch({"a": 1}).as_json_patch()), tried(lambda: kopf.Patch().as_json_patch())]
    patch.clear()
    states += [bool(patch), len(patch.fns)]
    record("patch", {}, states=states, shown=shown, operations=sorted(operations, key=json.dumps))
    memo = kopf.Memo(a=1)
    memo.b = 2
    memo["c"] = 3
    record("memo", {}, memo=dict(memo), read=[memo.a, memo["b"], memo.c, tried(lambda: memo.d), isinstance(memo, dict)])
    one = kopf.TemporaryError("text")
    record(
        "errors",
        {},
        delays=[one.delay, kopf.TemporaryError("t", delay=None).delay],
        shown=[str(one), kopf.PermanentError("x").args],
    )
    record("login", {}, **login())
    record("filters", {}, shown=[repr(kopf.PRESENT), repr(kopf.ABSENT), str(kopf.EVERYTHING)][:0])


def login():
    info = kopf.ConnectionInfo
    return {
        "headers": [
            info(server="http://x", token="t").as_http_headers(),
            info(server="http://x", token="t", scheme="Digest").as_http_headers(),
            info(server="http://x", username="u", password="p").as_http_headers(),
            info(server="http://x", scheme="Alone").as_http_headers(),
            info(server="http://x").as_http_headers(),
        ],
        "refused": [
            tried(lambda: info(server="http://x", ca_path="/x", ca_data=b"y")),
            tried(lambda: info(server="http://x", certificate_path="/x", certificate_data=b"y")),
            tried(lambda: info("http://x")),
        ],
        "defaults": [
            info(server="http://x").priority,
            info(server="http://x").trust_env,
            info(server="http://x").insecure,
        ],
    }
