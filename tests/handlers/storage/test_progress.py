from typing import Any

import pytest

from ctl.client.patches import merge_patch
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body, BodyEssence
from ctl.handlers.storage.naming import StoredStateError
from ctl.handlers.storage.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)

KEY = "kopf.zalando.org/create_fn"
RECORD = ProgressRecord(
    started="2026-01-02T03:04:05.000006+00:00",
    stopped=None,
    delayed=None,
    purpose="create",
    retries=1,
    success=True,
    failure=False,
    message=None,
    subrefs=None,
)
TEXT = '{"started":"2026-01-02T03:04:05.000006+00:00","purpose":"create","retries":1,"success":true,"failure":false}'


def stored(storage: ProgressStorage, record: ProgressRecord = RECORD) -> Patch:
    patch = Patch()
    storage.store(key="create_fn", record=record, body=Body({}), patch=patch)
    return patch


def test_records_in_annotations_leave_out_what_is_none() -> None:
    assert stored(AnnotationsProgressStorage()) == {"metadata": {"annotations": {KEY: TEXT}}}


def test_verbose_records_in_annotations_keep_it() -> None:
    text = stored(AnnotationsProgressStorage(verbose=True))["metadata"]["annotations"][KEY]
    assert '"stopped":null,"delayed":null' in text


def test_records_in_the_status_keep_it() -> None:
    assert stored(StatusProgressStorage()) == {"status": {"kopf": {"progress": {"create_fn": dict(RECORD)}}}}


def test_ids_of_sub_handlers_may_be_any_collection() -> None:
    record = ProgressRecord(started="s", subrefs=frozenset({"create_fn/a"}))
    assert stored(AnnotationsProgressStorage())  # no state is shared between the stores
    assert '"subrefs":["create_fn/a"]' in stored(AnnotationsProgressStorage(), record)["metadata"]["annotations"][KEY]
    progress = stored(StatusProgressStorage(), record)["status"]["kopf"]["progress"]
    assert progress["create_fn"]["subrefs"] == ["create_fn/a"]


@pytest.mark.parametrize(
    "storage",
    [
        AnnotationsProgressStorage(),
        AnnotationsProgressStorage(prefix="my.op"),
        StatusProgressStorage(),
        StatusProgressStorage(field="spec.progress"),
        SmartProgressStorage(),
        MultiProgressStorage([AnnotationsProgressStorage(), StatusProgressStorage()]),
    ],
)
def test_what_is_stored_is_found_and_purged(storage: ProgressStorage) -> None:
    body = Body(stored(storage))
    found = storage.fetch(key="create_fn", body=body)
    assert found is not None
    assert {key: value for key, value in found.items() if value is not None} == {
        key: value for key, value in RECORD.items() if value is not None
    }
    assert storage.fetch(key="other", body=body) is None
    purged = Patch()
    storage.purge(key="create_fn", body=body, patch=purged)
    assert storage.fetch(key="create_fn", body=Body(purged)) is None
    assert purged
    nothing = Patch()
    storage.purge(key="other", body=body, patch=nothing)
    assert not nothing


def test_purging_takes_back_what_is_not_written_yet() -> None:
    for storage in (AnnotationsProgressStorage(), StatusProgressStorage()):
        patch = stored(storage)
        storage.purge(key="create_fn", body=Body({}), patch=patch)
        assert patch == {}


def test_the_default_reads_and_purges_the_status_but_does_not_write_it() -> None:
    storage = SmartProgressStorage()
    body = Body({"status": {"kopf": {"progress": {"create_fn": {"started": "s"}}, "dummy": "t"}}})
    assert storage.fetch(key="create_fn", body=body) == {"started": "s"}
    patch = stored(storage)
    storage.touch(body=body, patch=patch, value="now")
    assert "status" not in patch
    storage.purge(key="create_fn", body=body, patch=patch)
    assert patch["status"] == {"kopf": {"progress": {"create_fn": None}}}


def test_the_default_prefers_annotations() -> None:
    body = Body(
        {
            "metadata": {"annotations": {KEY: TEXT}},
            "status": {"kopf": {"progress": {"create_fn": {"started": "s"}}}},
        }
    )
    found = SmartProgressStorage().fetch(key="create_fn", body=body)
    assert found is not None
    assert found["purpose"] == "create"


def test_touching_goes_to_and_fro() -> None:
    for storage in (AnnotationsProgressStorage(prefix="my.op"), StatusProgressStorage(name="my")):
        patch = Patch()
        storage.touch(body=Body({}), patch=patch, value="t")
        touched = Body(dict(patch))
        same = Patch()
        storage.touch(body=touched, patch=same, value="t")
        assert not same
        storage.touch(body=touched, patch=same, value=None)
        assert same
        nothing = Patch()
        storage.touch(body=Body({}), patch=nothing, value=None)
        assert not nothing


@pytest.mark.parametrize("text", ["", "{broken", "[1]", '"started"'])
def test_foreign_content_is_an_error_that_says_where(text: str) -> None:
    body = Body({"kind": "Thing", "metadata": {"name": "n", "annotations": {KEY: text}}})
    with pytest.raises(StoredStateError, match=r"annotation 'kopf\.zalando\.org/create_fn' of Thing n "):
        AnnotationsProgressStorage().fetch(key="create_fn", body=body)


@pytest.mark.parametrize(
    "status", [None, {"kopf": None}, {"kopf": {"progress": 5}}, {"kopf": {"progress": {"create_fn": 5}}}]
)
def test_a_status_of_another_form_holds_no_record(status: Any) -> None:
    assert StatusProgressStorage().fetch(key="create_fn", body=Body({"status": status})) is None


def test_the_fields_can_be_set() -> None:
    storage = StatusProgressStorage(name="my")
    assert (storage.field, storage.touch_field) == (("status", "my", "progress"), ("status", "my", "dummy"))
    storage.field = "status.x"
    storage.touch_field = ["status", "{name}"]
    assert (storage.field, storage.touch_field) == (("status", "x"), ("status", "{name}"))


def test_flushing_reaches_every_storage_of_a_user() -> None:
    class Gathering(ProgressStorage):
        flushed = 0

        def fetch(self, *, key: str, body: Body) -> ProgressRecord | None:
            return None

        def store(self, *, key: str, record: ProgressRecord, body: Body, patch: Patch) -> None: ...

        def purge(self, *, key: str, body: Body, patch: Patch) -> None: ...

        def touch(self, *, body: Body, patch: Patch, value: str | None) -> None: ...

        def clear(self, *, essence: BodyEssence) -> BodyEssence:
            return super().clear(essence=essence)

        def flush(self) -> None:
            self.flushed += 1

    one, two = Gathering(), Gathering()
    storage = MultiProgressStorage([one, two, AnnotationsProgressStorage()])
    storage.flush()
    assert (one.flushed, two.flushed) == (1, 1)
    assert storage.clear(essence={"spec": {}}) == {"spec": {}}


@pytest.mark.parametrize("storage", [AnnotationsProgressStorage(), StatusProgressStorage(), SmartProgressStorage()])
def test_a_look_tells_whether_there_may_be_records(storage: ProgressStorage) -> None:
    handled = {"kopf.zalando.org/last-handled-configuration": "{}", "kopf.zalando.org/last-handled-digest": "{}"}
    body = Body({"metadata": {"name": "n", "annotations": {**handled, "others.io/a": "b"}}, "status": {"other": 1}})
    assert not storage.may_hold(body)
    writing = StatusProgressStorage() if type(storage) is SmartProgressStorage else storage
    patch = Patch()
    writing.store(key="id", record=ProgressRecord(retries=1), body=body, patch=patch)
    assert storage.may_hold(Body(merge_patch(dict(body), patch)))
