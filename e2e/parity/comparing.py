"""Compares two recordings of one scenario: a difference is a path and what each of the two has there."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.api import Body
from parity.runs import Recording

# What an object log says beside these is the toolkit's own: which requests are made, and when, is not promised.
_UNPROMISED = re.compile(
    r"Merge-patching |JSON-patching |Sleeping |Handling cycle is finished|Could not apply the patch|Patching was skipped"
    r"|.* has exited |The attempt |Something has changed, but we are not interested|Deletion, but we are done"
)
_CONTENTS = re.compile(r"(is in progress|diff): .*", re.DOTALL)
_SECONDS = re.compile(r"\b\d+\.\d+\b|\b\d:\d\d:\d\d\.\d+")
_LABEL = re.compile(r"\w+ '([^']*)'")
_TRACEBACK = re.compile(r"\nTraceback .*", re.DOTALL)

Differences = dict[str, str]
_ABSENT = "(absent)"


def compared(kopf: Recording, ctl: Recording, *, ordered: bool = True) -> Differences:
    """All differences, by where they are; `ordered`: in which order the handlers of an object came, too."""
    found: Differences = {}
    _trees(found, "calls", _calls(kopf), _calls(ctl))
    if ordered:
        _values(found, "order", _order(kopf), _order(ctl))
    _trees(found, "objects", dict(kopf.objects), dict(ctl.objects))
    _values(found, "events", _events(kopf), _events(ctl))
    _values(found, "logs", _logs(kopf), _logs(ctl))
    _values(found, "debug", _debug(kopf), _debug(ctl))
    _values(found, "exit", {"codes": kopf.codes}, {"codes": ctl.codes})
    return found


def _said(value: Any) -> str:
    return value if value is _ABSENT else json.dumps(value, sort_keys=True)


def _note(found: Differences, path: str, kopf: Any, ctl: Any) -> None:
    found[path] = f"kopf: {_said(kopf)}\n      ctl:  {_said(ctl)}"


def _is_empty(value: Any) -> bool:
    return value in ({}, _ABSENT)


def _values(found: Differences, path: str, kopf: Mapping[str, Any], ctl: Mapping[str, Any]) -> None:
    for key in sorted({*kopf, *ctl}):
        if (left := kopf.get(key, _ABSENT)) != (right := ctl.get(key, _ABSENT)):
            _note(found, f"{path}/{key}", left, right)


def _trees(found: Differences, path: str, kopf: Any, ctl: Any) -> None:
    """Down to the first leaves that differ."""
    if isinstance(kopf, dict) and isinstance(ctl, dict):
        for key in sorted({*kopf, *ctl}):
            _trees(found, f"{path}/{key}", kopf.get(key, _ABSENT), ctl.get(key, _ABSENT))
    elif kopf != ctl and not (_is_empty(kopf) and _is_empty(ctl) and "/patch/" in path):
        _note(found, path, kopf, ctl)


def _calls(recording: Recording) -> Body:
    """Object -> handler -> number of the call -> what it was called with, and how many there were."""
    grouped: dict[str, dict[str, list[Body]]] = defaultdict(lambda: defaultdict(list))
    for call in recording.calls:
        grouped[str(call["object"])][call["handler"]].append(call)
    found: Body = {}
    for name, handlers in grouped.items():
        found[name] = {}
        for handler, calls in handlers.items():
            numbered: Body = {str(number): _call(call) for number, call in enumerate(calls)}
            found[name][handler] = {"count": len(calls), **numbered}
    return found


def _call(call: Body) -> Body:
    return {key: call[key] for key in ("names", "types", "kwargs", "said")}


def _order(recording: Recording) -> dict[str, list[str]]:
    """For each object the first calls of its handlers, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in recording.calls:
        if call["handler"] not in found[str(call["object"])]:
            found[str(call["object"])].append(call["handler"])
    return found


def _events(recording: Recording) -> dict[str, list[Any]]:
    """For each object what was posted about it, however it was counted."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for event in recording.events:
        about = event["involvedObject"]
        parts = {key: event.get(key) for key in ("type", "reason", "message", "action", "reportingComponent", "source")}
        about = {key: value for key, value in about.items() if key != "resourceVersion"}
        name = f"{about['kind']}/{about['name']}"
        found[name][json.dumps({**parts, "about": about}, sort_keys=True)] += event.get("count") or 1
    return {
        name: [[json.loads(text), count] for text, count in sorted(counts.items())] for name, counts in found.items()
    }


def _promised(lines: Iterable[Body]) -> Iterable[tuple[Body, str]]:
    for line in lines:
        if not _UNPROMISED.match(line["message"]):
            text = _SECONDS.sub("N", _TRACEBACK.sub("", line["message"]))
            yield line, _CONTENTS.sub(r"\1", text)


def _logs(recording: Recording) -> dict[str, list[Any]]:
    """For each handler of an object the messages that are not for debugging, in their order (of timers: which)."""
    found: dict[str, list[Any]] = defaultdict(list)
    for line, text in _promised(recording.logs):
        if line["severity"] != "debug":
            about = _LABEL.match(text)
            said = found[f"{line['object']['name']}/{about.group(1) if about else '-'}"]
            if not text.startswith("Timer ") or [line["severity"], text] not in said:
                said.append([line["severity"], text])
    return found


def _debug(recording: Recording) -> dict[str, list[str]]:
    """For each object the messages for debugging: which, not how often, since that depends on the number of writes."""
    found: dict[str, set[str]] = defaultdict(set)
    for line, text in _promised(recording.logs):
        if line["severity"] == "debug":
            found[str(line["object"]["name"])].add(text)
    return {name: sorted(texts) for name, texts in found.items()}
