import json
from typing import Any

import pytest

from ctl.handlers.causes.fields import FieldPath
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body, BodyEssence
from ctl.handlers.storage.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from ctl.handlers.storage.naming import StoredStateError

KEY = "kopf.zalando.org/last-handled-configuration"


def annotated(text: str) -> Body:
    return Body({"kind": "Thing", "metadata": {"namespace": "ns", "name": "n", "annotations": {KEY: text}}})


def test_what_the_system_writes_is_not_essential() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "n",
            "resourceVersion": "5",
            "managedFields": [],
            "labels": {"l": "1"},
            "annotations": {"note": "1", KEY: "{}", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"none": None},
        "data": {"x": 1},
        "status": {"x": 1},
    }
    essence = AnnotationsDiffBaseStorage().build(body=Body(raw))
    assert essence == {
        "spec": {"none": None},
        "data": {"x": 1},
        "metadata": {"labels": {"l": "1"}, "annotations": {"note": "1"}},
    }


def test_an_essence_shares_nothing_with_the_body() -> None:
    raw: dict[str, Any] = {"spec": {"list": [1]}, "metadata": {"labels": {"l": "1"}}, "status": {"x": [1]}}
    essence = AnnotationsDiffBaseStorage().build(body=Body(raw), extra_fields=[("status", "x")])
    essence["spec"]["list"].append(2)
    essence["metadata"]["labels"]["l"] = "2"
    essence["status"]["x"].append(2)
    assert raw == {"spec": {"list": [1]}, "metadata": {"labels": {"l": "1"}}, "status": {"x": [1]}}


def test_the_annotation_is_compact_ascii_with_a_line_feed() -> None:
    patch = Patch()
    AnnotationsDiffBaseStorage().store(body=Body({}), patch=patch, essence={"spec": {"é": None, "list": [1, 2]}})
    assert patch == {"metadata": {"annotations": {KEY: '{"spec":{"\\u00e9":null,"list":[1,2]}}\n'}}}


@pytest.mark.parametrize("text", ['{"a":1}', '{ "a" : 1 }\n\n', '{\n"a":\t1}'])
def test_any_form_of_json_is_read(text: str) -> None:
    assert AnnotationsDiffBaseStorage().fetch(body=annotated(text)) == {"a": 1}


@pytest.mark.parametrize("text", ["", "{broken", "[1]", "5"])
def test_foreign_content_is_an_error_that_says_where(text: str) -> None:
    with pytest.raises(
        StoredStateError, match=r"annotation 'kopf\.zalando\.org/last-handled-configuration' of Thing ns/n"
    ):
        AnnotationsDiffBaseStorage().fetch(body=annotated(text))
    with pytest.raises(StoredStateError, match=r"field 'status\.diff' of the object n "):
        StatusDiffBaseStorage(field="status.diff").fetch(
            body=Body({"metadata": {"name": "n"}, "status": {"diff": text}})
        )


def test_the_older_key_is_read_when_there_is_no_newer_one() -> None:
    storage = AnnotationsDiffBaseStorage(prefix="a-really-quite-long-operator-name.example.com")
    newer, older = storage.make_keys(storage.key)
    both = {newer: '{"n":1}', older: '{"o":1}'}
    assert storage.fetch(body=Body({"metadata": {"annotations": both}})) == {"n": 1}
    assert storage.fetch(body=Body({"metadata": {"annotations": {older: '{"o":1}'}}})) == {"o": 1}


def test_several_storages_are_all_written_and_the_first_is_read() -> None:
    storage = MultiDiffBaseStorage([StatusDiffBaseStorage(field="status.diff"), AnnotationsDiffBaseStorage()])
    patch = Patch()
    storage.store(body=Body({}), patch=patch, essence={"a": 1})
    assert patch == {"status": {"diff": '{"a":1}'}, "metadata": {"annotations": {KEY: '{"a":1}\n'}}}
    assert storage.fetch(body=Body(patch)) == {"a": 1}
    del patch["status"]
    assert storage.fetch(body=Body(patch)) == {"a": 1}


def test_ignored_fields_are_left_out_with_the_parents_that_they_empty() -> None:
    storage = AnnotationsDiffBaseStorage(
        ignored_fields=["spec.a.b", ("metadata", "labels", "x.y/z"), "data.scalar.deeper"]
    )
    raw = {"spec": {"a": {"b": 1}}, "metadata": {"labels": {"x.y/z": "1"}}, "data": {"scalar": 1}}
    assert storage.build(body=Body(raw)) == {"data": {"scalar": 1}}


def test_one_ignored_field_needs_no_list() -> None:
    assert AnnotationsDiffBaseStorage(ignored_fields="spec.a").build(body=Body({"spec": {"a": 1, "b": 2}})) == {
        "spec": {"b": 2}
    }


def test_the_field_can_be_set() -> None:
    storage = StatusDiffBaseStorage(name="my")
    assert storage.field == ("status", "my", "last-handled-configuration")
    for field in ("status.{name}.other", ["status", "my", "other"]):
        storage.field = field
        path: FieldPath = storage.field
        assert path == ("status", "my", "other")


@pytest.mark.parametrize("field", [None, [], ()])
def test_a_field_is_required(field: Any) -> None:
    with pytest.raises(ValueError, match="needs a field of its own"):
        StatusDiffBaseStorage(field=field)


def test_storages_of_users_extend_the_essence() -> None:
    class InMemory(DiffBaseStorage):
        def __init__(self) -> None:
            super().__init__(ignored_fields=["spec.noise"])
            self.known: dict[str, str] = {}

        def fetch(self, *, body: Body) -> BodyEssence | None:
            text = self.known.get(body.meta.uid)
            return None if text is None else json.loads(text)

        def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
            self.known[body.meta.uid] = json.dumps(essence)

    storage, body = InMemory(), Body({"metadata": {"uid": "u"}, "spec": {"x": 1, "noise": 2}})
    storage.store(body=body, patch=Patch(), essence=storage.build(body=body))
    assert storage.fetch(body=body) == {"spec": {"x": 1}}
