"""What a program can find out of Kopf's names without a server is the same under both, but for what is listed here with its reason."""

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operators.kopfenv import kopf_python

PROGRAM = Path(__file__).with_name("surface_operator.py")
OURS = "import ctl, runpy, sys; ctl.install_as_kopf(); runpy.run_path(sys.argv[1], run_name='__main__')"

REASONS = {
    "a message of our own in place of Python's": [
        "kopf.on.create('a', 'b', 'c', 'd', registry=R())(fn)",
        "kopf.on.field('x', registry=R())(fn)",
        "kopf.on.event('x', retries=1, registry=R())(fn)",
        "kopf.on.startup(fn)",
        "asyncio.run(kopf.operator(nothing=1))",
        "kopf.subhandler()(fn)",
        "kopf.register(fn)",
        "asyncio.run(kopf.execute())",
        "kopf.event(RAW, type='t', reason='r')",
        "kopf.info(RAW, reason='r')",
        "kopf.exception(RAW)",
        "kopf.label(OWNER, {'a': 'b'})",
    ],
    "an error that names the certificate": ["C(server='x', ca_path='/nowhere').as_ssl_context()"],
    "an error that names the handler": ["kopf.on.event('x', registry=R())(None)"],
    "the key that is missing, where the stanza is missing too": [
        "empty.status['x']",
        "changed(lambda p: p.spec.__delitem__('a'))",
        "kopf.Patch().spec['x']",
    ],
    "a stanza that is null is empty": [
        "kopf.Body({'spec': None}).spec.get('x')",
        "changed(lambda p: p.update(spec=None) or p.spec.update(x=1))",
    ],
    "secrets are not shown": ["repr(C(server='https://x'))", "'secret' in repr(C(server='https://x', token='secret'))"],
    "an empty mapping is kept, as by the merge patch": ["kopf.Patch({'spec': {'a': {}}}).as_json_patch({'spec': {}})"],
    "more is allowed": ["setattr(kopf.Patch(), 'fns', [])", "D()", "kopf.label('abc', {'a': 'b'})"],
    "views of bodies have no attributes of their own": ["setattr(body, 'x', 1)"],
    "defaults are not attributes of the class": ["members(kopf.Resource)"],
}
"""Why something may differ -> the expressions."""
EXPECTED = {expression for expressions in REASONS.values() for expression in expressions}

Told = Mapping[str, Any]


def run(*command: str | Path) -> dict[str, Told]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Told] = json.loads(done.stdout)
    return found


def accepts(kopf: Any, ctl: Any) -> bool:
    """Whether all calls that one signature takes are taken by the other, and mean the same."""
    if not isinstance(kopf, list) or not isinstance(ctl, list):
        return bool(kopf == ctl)
    kinds = {kind for _, kind, _ in ctl}
    positional = [one for one in kopf if one[1].startswith("POSITIONAL")]
    there = [one for one in ctl if one[1].startswith("POSITIONAL")]
    named = {name: value for name, kind, value in ctl if not kind.startswith("VAR")}
    if "VAR_POSITIONAL" not in kinds:
        for wanted, found in zip(positional, there, strict=False):
            if wanted[0] not in {"", found[0]} or (wanted[2] not in {"(none)", found[2]}):
                return False
        if len(there) < len(positional) or any(value == "(none)" for _, _, value in there[len(positional) :]):
            return False
    for name, kind, value in kopf:
        if kind == "KEYWORD_ONLY" and "VAR_KEYWORD" not in kinds and value not in {"(none)", named.get(name)}:
            return False
        if kind == "KEYWORD_ONLY" and name not in named and "VAR_KEYWORD" not in kinds:
            return False
        if kind.startswith("VAR") and kind not in kinds:
            return False
    wanted_names = {name for name, _, _ in kopf}
    return all(value != "(none)" or kind != "KEYWORD_ONLY" or name in wanted_names for name, kind, value in ctl)


def agrees(expression: str, kopf: Told, ctl: Told | None) -> bool:
    """Whether a program made for Kopf finds what it looks for: all members and bases, the same values, the phrases of messages."""
    if ctl is None:
        return expression.startswith(
            ("bases(", "members(", "signature(")
        )  # of an alias of a type there is nothing to tell
    if "error" in kopf:
        same = kopf["error"] == ctl.get("error") and kopf["text"].rstrip(".") in ctl["text"]
    elif "error" in ctl:
        same = False
    elif expression.startswith(("bases(", "sorted(option")):
        same = {*ast.literal_eval(kopf["value"])} <= {*ast.literal_eval(ctl["value"])}
    elif expression.startswith("members("):
        wanted, found = ast.literal_eval(kopf["value"]), ast.literal_eval(ctl["value"])
        same = all(name in found and accepts(kind, found[name]) for name, kind in wanted.items())
    elif expression.startswith("signature("):
        same = accepts(ast.literal_eval(kopf["value"]), ast.literal_eval(ctl["value"]))
    else:
        same = kopf["value"] == ctl["value"]
    pairs = list(zip(kopf["warnings"], ctl["warnings"], strict=False))
    return (
        same
        and len(kopf["warnings"]) == len(ctl["warnings"])
        and all(one[0] == other[0] and one[1].rstrip(".") in other[1] for one, other in pairs)
    )


def test_what_programs_find_out_of_the_names_is_the_same() -> None:
    kopf, ctl = run(kopf_python(), PROGRAM), run(sys.executable, "-c", OURS, PROGRAM)
    differing = {one: (kopf[one], ctl.get(one)) for one in kopf if not agrees(one, kopf[one], ctl.get(one))}
    unexpected = [
        f"{one}\n  kopf: {told[0]}\n  ctl:  {told[1]}" for one, told in differing.items() if one not in EXPECTED
    ]
    assert not unexpected, "\n".join(unexpected)
    gone = EXPECTED - differing.keys()
    assert not gone, f"These do not differ (any more): {sorted(gone)}"
    assert len(kopf) > 400
