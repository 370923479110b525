"""Record what Kopf answers: the vectors of the tests in this folder and in `causes`.

Run it where `kopf==1.45.2` is installed (nowhere near the project's own environment): `python record_kopf.py TESTS/HANDLERS`.
The input is drawn from a fixed seed, so the same Kopf gives the same files. Where Kopf raises there is no vector.
"""

import json
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch
import kopf  # type: ignore[import-not-found]  # not installed with the project

RND = random.Random(20260721)
KEYS = ["a", "b", "c"]
FINAL = "last-handled-configuration"
LONG = "a-really-quite-long-operator-name.example.com"
ANNOTATIONS = [
    "note",
    "kopf-managed",
    "kubectl.kubernetes.io/last-applied-configuration",
    *(f"kopf.zalando.org/{name}" for name in ("x", FINAL, "touch-dummy", "create_fn")),
    *(f"my.op/{name}" for name in ("x", FINAL, "touch-dummy", "create_fn", "kopf-managed")),
    "sub.kopf.zalando.org/z",
    "other.io/kopf-managed",
    "other.io/thing",
]
STATUSES: list[dict[str, Any]] = [
    {},
    {"dummy": "t"},
    {"progress": {"create_fn": {"started": "s", "retries": 1}}, "dummy": "t"},
    {"progress": {"create_fn": None}},
    {FINAL: '{"spec":{"q":1}}'},
]
DIFFBASES: list[list[Any]] = [
    ["AnnotationsDiffBaseStorage", {}],
    ["AnnotationsDiffBaseStorage", {"prefix": "my.op"}],
    ["AnnotationsDiffBaseStorage", {"prefix": "my.op", "key": "kk", "v1": False}],
    ["AnnotationsDiffBaseStorage", {"ignored_fields": ["spec.a", "spec.b.c", "data"]}],
    ["AnnotationsDiffBaseStorage", {"ignored_fields": [["metadata", "labels", "l"], "spec.c.a.b"]}],
    ["AnnotationsDiffBaseStorage", {"prefix": LONG}],
    ["StatusDiffBaseStorage", {}],
    ["StatusDiffBaseStorage", {"name": "my"}],
    ["StatusDiffBaseStorage", {"field": "status.diff-base"}],
    ["MultiDiffBaseStorage", [["StatusDiffBaseStorage", {}], ["AnnotationsDiffBaseStorage", {}]]],
]
PROGRESSES: list[list[Any]] = [
    ["AnnotationsProgressStorage", {}],
    ["AnnotationsProgressStorage", {"prefix": "my.op"}],
    ["AnnotationsProgressStorage", {"verbose": True, "touch_key": "tk", "v1": False}],
    ["AnnotationsProgressStorage", {"prefix": LONG}],
    ["StatusProgressStorage", {}],
    ["StatusProgressStorage", {"name": "my"}],
    ["StatusProgressStorage", {"field": ["status", "a", "b"], "touch_field": "status.c"}],
    ["SmartProgressStorage", {}],
    ["SmartProgressStorage", {"prefix": "my.op", "name": "my"}],
    ["MultiProgressStorage", [["AnnotationsProgressStorage", {}], ["StatusProgressStorage", {}]]],
]
EXTRA_FIELDS = [
    None,
    ["status.a"],
    ["status.a.b", "metadata.name"],
    [["status", "c"], "spec.a"],
    ["status"],
    ["metadata"],
]
PREFIXES = [
    "kopf.zalando.org",
    "my-operator.example.com",
    LONG,
    "x.io",
    f"{'p' * 54}.io",
    f"{'q' * 60}.example.com",
    "kopf.dev",
]
IDS = [
    "create_fn",
    "create_fn/spec.field",
    "<lambda>",
    "a_b.c-d/e",
    "touch-dummy",
    FINAL,
    "lambda:/tmp/x.py:12",
    "outer.<locals>.fn/sub/deep",
    "_private",
    *("x" * 40, "x" * 64, "fn" * 323, "a" * 46, "a" * 47, "a" * 62, "a" * 63),
    "ünïcode/ключ",
]


def value(depth: int = 3, *, nulls: bool = True) -> Any:
    kind = RND.random()
    if depth and kind < 0.5:
        return mapping(depth, nulls=nulls)
    if kind < 0.65:
        return [RND.randint(0, 2) for _ in range(RND.randint(0, 3))]
    if nulls and kind < 0.75:
        return None
    return RND.choice([0, 1, 2, "x", "y", "", True, False, 1.5])


def mapping(depth: int = 3, *, nulls: bool = True) -> dict[str, Any]:
    return {key: value(depth - 1, nulls=nulls) for key in RND.sample(KEYS, RND.randint(0, 3))}


def thing() -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "n", "uid": "u", "finalizers": ["f"]}
    if RND.random() < 0.8:
        texts = ["{}", '{"a":1}', '{"spec": {"x": null}}\n', "null"]
        metadata["annotations"] = {name: RND.choice(texts) for name in RND.sample(ANNOTATIONS, RND.randint(0, 6))}
    if RND.random() < 0.7:
        metadata["labels"] = RND.choice([{}, {"l": "1"}])
    if RND.random() < 0.4:
        metadata["ownerReferences"] = [{"kind": RND.choice(["Deployment", "Other"]), "uid": "o"}]
    body: dict[str, Any] = {"apiVersion": "v1", "kind": RND.choice(["Thing", "ReplicaSet"])}
    stanzas = (("metadata", metadata, 0.95), ("spec", mapping(), 0.8), ("data", value(), 0.3))
    body |= {key: stanza for key, stanza, chance in stanzas if RND.random() < chance}
    if RND.random() < 0.8:
        body["status"] = mapping(2) | ({"kopf": RND.choice(STATUSES)} if RND.random() < 0.6 else {})
    return body


def record() -> dict[str, Any]:
    return {
        "started": "2026-01-02T03:04:05.000006+00:00",
        "stopped": None,
        "delayed": RND.choice([None, "2026-01-02T03:05:05.000006+00:00"]),
        "purpose": RND.choice(["create", None]),
        "retries": RND.randint(0, 5),
        "success": RND.random() < 0.5,
        "failure": False,
        "message": RND.choice([None, "None", 'é "x"\n']),
        "subrefs": RND.choice([None, ["f/a", "f/b"]]),
    }


def make(spec: list[Any]) -> Any:
    name, options = spec
    cls = getattr(kopf, name)
    return cls([make(inner) for inner in options]) if isinstance(options, list) else cls(**options)


def patched(change: Callable[[Any], None]) -> dict[str, Any]:
    patch = kopf.Patch()
    change(patch)
    return dict(patch)


def items(diff: Any) -> list[Any]:
    return sorted(([str(item[0]), list(item[1]), item[2], item[3]] for item in diff), key=repr)


def names() -> list[Any]:
    replicas = kopf.Body({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}})
    alphabet = "abcXYZ019_-./<>:"
    keys = [*IDS, *("".join(RND.choices(alphabet, k=RND.randint(1, 140))) for _ in range(8))]
    storages = [kopf.AnnotationsProgressStorage(prefix=prefix) for prefix in PREFIXES]
    return [
        [s.prefix, key, list(s.make_keys(key)), list(s.make_keys(key, body=replicas))] for s in storages for key in keys
    ]


class Recorder:
    def __init__(self) -> None:
        self.vectors: dict[str, list[Any]] = {}

    def add(self, kind: str, inputs: list[Any], answer: Callable[[], Any]) -> None:
        frozen = json.loads(json.dumps(inputs))
        try:
            got = answer()
        except Exception:  # where Kopf fails, there is nothing to be like
            return
        self.vectors.setdefault(kind, []).append([*frozen, got])

    def diffbases(self, spec: list[Any]) -> None:
        raw, storage, extra, essence = thing(), make(spec), RND.choice(EXTRA_FIELDS), {"spec": mapping(), "é": '"'}
        body = kopf.Body(raw)
        self.add("build", [spec, raw, extra], lambda: storage.build(body=body, extra_fields=extra))
        self.add("fetch", [spec, raw], lambda: storage.fetch(body=body))
        store = [spec, raw, essence]
        self.add("store", store, lambda: patched(lambda p: storage.store(body=body, patch=p, essence=essence)))

    def progresses(self, spec: list[Any]) -> None:
        raw, storage, rec, text = thing(), make(spec), record(), RND.choice([None, "t", "now"])
        body, key = kopf.Body(raw), RND.choice(["create_fn", "create_fn", "fn/spec.field", "f" * 50])
        options = {"key": key, "body": body}
        self.add("fetch", [spec, raw, key], lambda: storage.fetch(**options))
        stored = [spec, raw, key, rec]
        self.add("store", stored, lambda: patched(lambda p: storage.store(record=rec, patch=p, **options)))
        self.add("purge", [spec, raw, key], lambda: patched(lambda p: storage.purge(patch=p, **options)))
        self.add("touch", [spec, raw, text], lambda: patched(lambda p: storage.touch(body=body, patch=p, value=text)))
        extra = RND.choice([None, ["status", "metadata.annotations"]])
        essence = kopf.AnnotationsDiffBaseStorage(prefix="zz.zz").build(body=body, extra_fields=extra)
        self.add("clear", [spec, essence], lambda: storage.clear(essence=essence))

    def differences(self) -> None:
        module = sys.modules[kopf.Diff.__module__]
        one, two, path = value(), value(), [RND.choice(KEYS) for _ in range(RND.randint(0, 3))]
        self.add("diff", [one, two], lambda: items(module.diff(one, two)))
        old, new = mapping(), mapping()
        self.add("reduce", [old, new, path], lambda: items(module.reduce(module.diff(old, new), tuple(path))))
        base = {"metadata": {"name": "n", "labels": {"l": "1"}}, "spec": mapping(nulls=False)}
        patch = {"spec": mapping(), "status": mapping()}
        kopfs = kopf.Patch(patch, body=base)
        self.add("json_patch", [patch, base], lambda: jsonpatch.apply_patch(base, kopfs.as_json_patch()))


def write(path: Path, vectors: dict[str, Any]) -> None:
    lines = [f'"kopf":{json.dumps(kopf.__version__)}']
    for kind, found in vectors.items():
        rows = ",\n".join(json.dumps(vector, separators=(",", ":"), ensure_ascii=False) for vector in found)
        lines.append(f"{json.dumps(kind)}:[\n{rows}\n]")
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    causation, diffbase, progress = Recorder(), Recorder(), Recorder()
    for _ in range(60):
        causation.differences()
    for _ in range(6):
        for spec in DIFFBASES:
            diffbase.diffbases(spec)
        for spec in PROGRESSES:
            progress.progresses(spec)
    write(folder / "causes" / "kopf_causation.json", causation.vectors)
    write(folder / "storage" / "kopf_diffbase.json", diffbase.vectors)
    write(folder / "storage" / "kopf_progress.json", progress.vectors)
    write(folder / "storage" / "kopf_names.json", {"names": names()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
