"""Run an exec plugin: the program of a kubeconfig's user that gives credentials (client.authentication.k8s.io).

The rules are those of client-go's `plugin/pkg/client/auth/exec`. Blocks; to be called in a thread.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import AccessError

VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
MODES: Final = ("Never", "IfAvailable", "Always")
LIMIT: Final = 60.0
"""Seconds that a plugin may take, people who answer its questions included."""
EXCERPT: Final = 200
"""How many characters of a plugin's words are told in an error."""
_HIDDEN: Final = "[hidden]"
_SETTINGS = re.compile(
    r"""(?ix) ( (?:token|secret|passw(?:or)?d|credential|key|authorization)s? ["']? \s* [:=] \s* (?:bearer|basic)? \s* ["']? | \b bearer \s+ )
    [^\s"',;]+"""
)
_LONG = re.compile(r"[\w+/=~.-]{20,}")


@dataclass(frozen=True, repr=False)
class Plugin:
    """The `exec` stanza of a user. A command with a slash is relative to the folder of its kubeconfig."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""

    @classmethod
    def of(cls, spec: Mapping[str, Any], where: str, base: Path) -> "Plugin":
        """Read a stanza. Raises AccessError, which says `where` that is, for what makes no sense."""
        missing = [key for key in ("command", "apiVersion") if not spec.get(key)]
        if missing:
            raise AccessError(f"The exec stanza of {where} lacks {' and '.join(missing)}.")
        command, version = _text(spec, "command", where), _text(spec, "apiVersion", where)
        mode = _text(spec, "interactiveMode", where) or "IfAvailable"
        for key, value, known in (("apiVersion", version, VERSIONS), ("interactiveMode", mode, MODES)):
            if value not in known:
                raise AccessError(
                    f"The exec stanza of {where} has the {key} {value!r}: expected one of {', '.join(known)}."
                )
        args = spec.get("args") or []
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
            raise AccessError(f"The exec stanza of {where} is broken: `args` must be a list of texts.")
        if "/" in command and not Path(command).is_absolute():
            command = str((base / command).absolute())
        hint = _text(spec, "installHint", where).strip()
        return cls(command, version, tuple(args), _variables(spec.get("env"), where), mode, hint)

    def run(self, limit: float, known: Sequence[str] = ()) -> Mapping[str, Any]:
        """Run the program, and give the `status` that it prints.

        It gets nothing to read unless it may ask people and there is a terminal. After `limit` seconds it is killed, with all that it
        has started. Raises ValueError and OSError, in words that hold none of its secrets; `known` are such.
        """
        is_interactive = self._is_interactive()
        info = {
            "apiVersion": self.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": is_interactive},
        }
        process = subprocess.Popen(  # noqa: S603 - the user's own kubeconfig names it
            [self.command, *self.args],
            env={**os.environ, **dict(self.env), "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            # Who asks people stays in the foreground of their terminal.
            start_new_session=not is_interactive,
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _kill(process, group=not is_interactive)
            raise ValueError(f"no answer within {limit:g} s") from None
        if process.returncode != 0:
            said = excerpt((errors or b"").decode(errors="replace"), (*known, *(value for _, value in self.env)))
            raise ValueError(f"it ended with code {process.returncode}" + (f" and said: {said}" if said else ""))
        return self._status(output)

    def _is_interactive(self) -> bool:
        if self.interactive_mode == "Never":
            return False
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self.interactive_mode == "Always" and not has_terminal:
            raise ValueError("its interactiveMode is Always, and there is no terminal")
        return has_terminal

    def _status(self, output: bytes) -> Mapping[str, Any]:
        try:
            found = json.loads(output)
        except ValueError:
            # Without the output, which may hold half of a token.
            raise ValueError(
                f"expected an ExecCredential in JSON, found {len(output)} bytes that are no JSON"
            ) from None
        if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
            raise ValueError("expected an ExecCredential in JSON, found something else")
        if found.get("apiVersion") != self.api_version:
            raise ValueError(
                f"expected an answer of the apiVersion {self.api_version}, found {str(found.get('apiVersion'))[:60]!r}"
            )
        if not isinstance(status := found.get("status"), dict):
            raise ValueError("expected a `status` in its answer, found none")  # noqa: TRY004 - of the answer, not of our caller
        return status


def excerpt(text: str, known: Iterable[str] = ()) -> str:
    """The last words of a program, in one line, without `known` secrets and what looks like one."""
    text = " ".join(text.split())
    for secret in known:
        if len(secret) > 3:
            text = text.replace(secret, _HIDDEN)
    text = _SETTINGS.sub(rf"\1{_HIDDEN}", text)
    text = _LONG.sub(lambda match: _HIDDEN if any(map(str.isdigit, match[0])) else match[0], text)
    return text if len(text) <= EXCERPT else f"... {text[-EXCERPT:]}"


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """End a program that goes on, and in a group of its own also what it has started."""
    if group and sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=1.0)


def _variables(found: object, where: str) -> tuple[tuple[str, str], ...]:
    items = found or []
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) and isinstance(item.get("value"), str)
        for item in items
    ):
        raise AccessError(
            f"The exec stanza of {where} is broken: `env` must be a list of mappings with `name` and `value`, both texts."
        )
    return tuple((item["name"], item["value"]) for item in items)


def _text(spec: Mapping[str, Any], key: str, where: str) -> str:
    value = spec.get(key)
    if value is not None and not isinstance(value, str):
        raise AccessError(f"The exec stanza of {where} is broken: `{key}` must be a text.")
    return value or ""
