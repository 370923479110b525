"""What a program can find out of Kopf's names without a server. Run under Kopf or under ctl, it prints what each expression gives, as JSON.

The expressions are those of surface.txt, and what inspection tells of the public classes and functions.
"""

import asyncio
import builtins
import collections
import collections.abc
import concurrent.futures
import copy
import datetime as dt
import enum
import functools
import inspect
import json
import logging
import pickle
import re
import sys
import types
import warnings
from pathlib import Path

import kopf
import kopf.cli
import kopf.on

NAMES = [
    name for name in sorted({*kopf.__all__, "adjust_namespace", "harmonize_naming"}) if not name.startswith("Webhook")
]
PUBLIC = {*NAMES, *dir(builtins), *enum.__all__, *collections.abc.__all__} - {"MappingView"}
OURS = {
    "checkpoint_interval",
    "largest_annotation",
    "largest_answer",
    "largest_event",
    "uid_annotation",
    "plain_secrets",
}


def fn(**_):
    pass


class Callable:
    def __call__(self, **_):
        pass


def changed(change, **given):
    patch = kopf.Patch(**given)
    change(patch)
    return dict(patch), list(patch.fns)


def after(function, obj, *args, **kwargs):
    function(obj, *args, **kwargs)
    return obj


def settings():
    return kopf.OperatorSettings()


def default(value):
    if value is inspect.Parameter.empty:
        return "(none)"
    plain = isinstance(value, type(None) | bool | int | float | str | tuple)
    return repr(value) if plain else "(something)"


def signature(function):
    """Names, kinds and defaults; those that Kopf lets nobody name have no name."""
    try:
        found = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    except ValueError:
        return "of a builtin"
    return [("" if "__" in one.name else one.name, one.kind.name, default(one.default)) for one in found]


def members(cls):
    """The public members with what they are; of methods, with their parameters."""
    found = {}
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_"):
            continue
        if isinstance(value, types.FunctionType | staticmethod | classmethod):
            found[name] = signature(getattr(cls, name))
        else:
            found[name] = None
    return found


def bases(cls):
    return sorted({base.__name__ for base in cls.__mro__ if base.__name__ in PUBLIC})


def group(name):
    """The settings of a group with their defaults."""
    values = vars(getattr(settings(), name))
    return {key: default(value) for key, value in values.items() if not key.startswith("_") and key not in OURS}


def inspections():
    for name in NAMES:
        value = getattr(kopf, name)
        if inspect.isclass(value) and not isinstance(value, types.GenericAlias):
            yield f"bases(kopf.{name})"
            yield f"members(kopf.{name})"
            yield f"signature(kopf.{name})"
        elif isinstance(value, types.FunctionType):
            yield f"signature(kopf.{name})"
    for name in ("all_at_once", "one_by_one", "randomized", "shuffled", "asap"):
        yield f"signature(kopf.lifecycles.{name})"
    for name in [
        "process",
        "posting",
        "peering",
        "watching",
        "queueing",
        "scanning",
        "admission",
        "execution",
        "background",
        "networking",
        "persistence",
    ]:
        yield f"group({name!r})"
    for name in ("run", "freeze", "resume"):
        yield f"sorted(option for one in kopf.cli.{name}.params for option in one.opts)"
    yield "signature(kopf.cli.CLIControls)"
    yield "kopf.cli.CLIControls(stop_flag=None) == kopf.cli.CLIControls()"


RAW = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "metadata": {
        "name": "n",
        "namespace": "ns",
        "uid": "u",
        "labels": {"l": "1"},
        "annotations": {"a": "2"},
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": None,
    },
    "spec": {"f": {"g": [1]}},
    "status": {"s": 1},
}
OWNER = kopf.Body(RAW)
body, empty = kopf.Body(RAW), kopf.Body({})
D, I, C, P, R = kopf.Diff, kopf.DiffItem, kopf.ConnectionInfo, kopf.AnnotationsProgressStorage, kopf.OperatorRegistry  # noqa: E741
item = I(kopf.DiffOperation.ADD, ("a", "b"), None, 1)
diff = D([item])
resource = kopf.Resource(
    "g.dev",
    "v1",
    "things",
    kind="Thing",
    singular="thing",
    shortcuts=frozenset({"th"}),
    namespaced=True,
    subresources=frozenset({"status"}),
)
KNOWN = {
    **globals(),
    **{module.__name__: module for module in (asyncio, collections, copy, enum, functools, json, logging, pickle)},
    "concurrent": concurrent,
    "datetime": dt,
}


def told(expression):
    """What an expression gives: a value, by its repr, or an error; and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = {"value": re.sub(r" at 0x[0-9a-f]+", "", repr(eval(expression, dict(KNOWN))))}
        except BaseException as error:
            found = {"error": type(error).__name__, "text": re.sub(r" at 0x[0-9a-f]+", "", str(error))}
    return found | {"warnings": [[one.category.__name__, str(one.message)] for one in caught]}


if __name__ == "__main__":
    written = Path(__file__).with_name("surface.txt").read_text().splitlines()
    expressions = [line for line in written if line and not line.startswith("#")]
    json.dump({expression: told(expression) for expression in [*inspections(), *expressions]}, sys.stdout)
