import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.controller.events.event import LONGEST_MESSAGE, Event, EventSource, build_event, cut_message
from ctl.handlers.causes.views import Body
from ctl.handlers.kopf.posting import posts_about, type_of_level

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RAW = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "n", "namespace": "ns", "uid": "u"}}
SAID = {"type": "Normal", "reason": "Why", "message": "What"}


def test_an_event_is_written_as_by_kopf() -> None:
    [post] = posts_about(Body(RAW), **SAID)
    assert build_event(post, EventSource(), NOW) == {
        "metadata": {"namespace": "ns", "generateName": "kopf-event-"},
        "action": "Action?",
        "type": "Normal",
        "reason": "Why",
        "message": "What",
        "reportingComponent": "kopf",
        "reportingInstance": "dev",
        "source": {"component": "kopf"},
        "involvedObject": {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "name": "n",
            "uid": "u",
            "namespace": "ns",
        },
        "firstTimestamp": "2026-01-02T03:04:05.000000+00:00",
        "lastTimestamp": "2026-01-02T03:04:05.000000+00:00",
        "eventTime": "2026-01-02T03:04:05.000000+00:00",
    }


def test_events_about_cluster_scoped_objects_are_in_default_and_name_no_namespace() -> None:
    """As client-go writes them."""
    [post] = posts_about({"kind": "Node", "metadata": {"name": "n"}}, **SAID)
    event = build_event(post, EventSource(component="c", instance="i", name_prefix="p-"), NOW)
    assert event["metadata"] == {"namespace": "default", "generateName": "p-"}
    assert event["involvedObject"] == {"kind": "Node", "name": "n"}
    assert (event["source"], event["reportingComponent"], event["reportingInstance"]) == ({"component": "c"}, "c", "i")


def test_many_objects_of_all_kinds() -> None:
    metadata = kubernetes.client.V1ObjectMeta(name="n", uid="m")
    model = kubernetes.client.V1Pod(api_version="v1", kind="Pod", metadata=metadata)
    objs: Any = [Body(RAW), [dict(RAW), (SimpleNamespace(obj=RAW),)], (obj for obj in [model]), None]
    posts = list(posts_about(objs, **SAID))
    assert [post.reference["name"] for post in posts] == ["n"] * 4
    assert [post.reference["uid"] for post in posts] == ["u", "u", "u", "m"]


def test_nothing_is_said_about_events() -> None:
    assert not list(posts_about([{"apiVersion": "v1", "kind": "Event"}], **SAID))
    assert list(posts_about([{"apiVersion": "events.k8s.io/v1", "kind": "Event"}], **SAID))


@pytest.mark.parametrize("obj", [5, "text", object()])
def test_what_is_no_object_is_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match="not supported"):
        list(posts_about([obj], **SAID))


def test_a_long_message_loses_its_middle() -> None:
    cut = cut_message("a" * 600 + "b" * 600)
    assert cut == "a" * 511 + "..." + "b" * 510
    assert cut_message("a" * 1024) == "a" * 1024


@given(st.text(max_size=40), st.integers(3, 30))
def test_a_message_fits_and_keeps_its_ends(message: str, limit: int) -> None:
    cut = cut_message(message, limit)
    assert len(cut) == min(len(message), limit)
    if cut != message:
        start, end = cut[: (limit - 2) // 2], cut[len(cut) - (limit - 3) // 2 :]
        assert message.startswith(start)
        assert message.endswith(end)
    assert len(cut) <= LONGEST_MESSAGE


def test_posts_are_grouped() -> None:
    def post(**changes: Any) -> Event:
        return Event(**{"reference": {"uid": "u", "name": "n"}, **SAID, **changes})

    one, other = post(), post(message="Other")
    assert one.object_key == other.object_key == ("u",)
    assert one.similar_key == other.similar_key
    assert one.repeat_key != other.repeat_key
    assert one.repeat_key == post().repeat_key
    assert one.similar_key != post(reason="Else").similar_key
    assert one.similar_key != post(reference={"uid": "v", "name": "n"}).similar_key
    assert post(reference={"kind": "K", "name": "n"}).object_key == (None, "K", None, "n")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.DEBUG, "Debug"),
        (logging.INFO, "Normal"),
        (logging.WARNING, "Warning"),
        (logging.ERROR, "Error"),
        (logging.CRITICAL, "Fatal"),
        (logging.ERROR + 5, "Error"),
        (1, "Debug"),
    ],
)
def test_types_of_log_messages(level: int, expected: str) -> None:
    assert type_of_level(level) == expected
