"""The options of a write are read from its query: dry run, field manager, force, validation of fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .patching import APPLY_PATCH
from .status import Cause, Subject, invalid, prohibited, required, too_long, unsupported, wrong

Validation = Literal["Ignore", "Warn", "Strict"]
MANAGER_LIMIT: Final = 128
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")


@dataclass(frozen=True)
class WriteOptions:
    """What a write asks for. `manager` is the field manager given, or else the first part of the User-Agent."""

    dry_run: bool = False
    manager: str = ""
    force: bool = False
    validation: Validation = "Warn"


def manager_of(user_agent: str) -> str:
    """The field manager of a client that names none: its User-Agent before the first slash, printable and short."""
    found = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    return found.encode()[:MANAGER_LIMIT].decode(errors="ignore")


def options_of(verb: str, query: Mapping[str, str], user_agent: str, patch_type: str = "") -> WriteOptions:
    """The options of a write; `patch_type` is the media type of a patch. Raises a 422."""
    causes: list[Cause] = []
    given = query.get("dryRun")
    if given not in (None, "", "All"):
        causes.append(unsupported("dryRun", [given], ("All",)))
    manager, force = query.get("fieldManager", ""), query.get("force") in ("true", "1")
    if patch_type == APPLY_PATCH:
        if not manager:
            causes.append(required("fieldManager", "is required for apply patch"))
    elif verb == "patch" and "force" in query:
        causes.append(prohibited("force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > MANAGER_LIMIT:
        causes.append(too_long("fieldManager", MANAGER_LIMIT))
    causes += [
        wrong("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {place})")
        for place, letter in enumerate(manager)
        if not letter.isprintable()
    ]
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        causes.append(unsupported("fieldValidation", validation, ("", *_VALIDATIONS)))
    if causes:
        raise invalid(Subject("meta.k8s.io", "", _KINDS.get(verb, "DeleteOptions")), "", causes)
    level: Validation = "Strict" if validation == "Strict" else "Ignore" if validation == "Ignore" else "Warn"
    return WriteOptions(bool(given), manager or manager_of(user_agent), force, level)
