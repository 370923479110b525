"""Error answers have the body, reason and words of the real API server (`metav1.Status`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

GENERIC_INVALID: Final = "the server rejected our request due to an error in our request"
STALE_OBJECT: Final = "the object has been modified; please apply your changes to the latest version and try again"


class Refused(Exception):
    """An answer other than success: the HTTP code and the Status body that a client gets.

    `metadata` is the list metadata of the Status (an expired continue token carries a new one there).
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        """The Status object, its keys in the server's order."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body


class Unrouted(Refused):
    """A 404 for a path that nothing at all is served at: the answer is plain text, no Status."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found\n")


class Mistyped(Refused):
    """A value of a type that the kind does not have there; `words` are the decoder's."""

    def __init__(self, message: str, words: str) -> None:
        super().__init__(400, "BadRequest", message)
        self.words = words


@dataclass(frozen=True)
class Subject:
    """What an error is about: the group, the resource's plural and its kind."""

    group: str
    plural: str
    kind: str

    @property
    def resource(self) -> str:
        """`plural.group`, or the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_kind(self) -> str:
        """`Kind.group`, or the kind alone in the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def details(self, name: str, kind: str | None = None, **more: Any) -> dict[str, Any]:
        """The `details` stanza: name, group, and the plural (or the given word) as kind."""
        found: dict[str, Any] = {}
        if name:
            found["name"] = name
        if self.group:
            found["group"] = self.group
        if shown := self.plural if kind is None else kind:
            found["kind"] = shown
        return found | more


@dataclass(frozen=True)
class Cause:
    """One finding about one field: the reason (`FieldValueInvalid`...), the words, and the path."""

    reason: str
    message: str
    field: str

    def body(self) -> dict[str, str]:
        """The cause as it stands in `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def quoted(value: Any) -> str:
    """A value as Go prints it in field errors: strings quoted, the rest as JSON would have it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ",".join(quoted(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(key)}:{quoted(item)}" for key, item in value.items()) + "}"
    if value is True or value is False:
        return str(value).lower()
    return "null" if value is None else str(value)


def wrong(field: str, value: Any, message: str) -> Cause:
    """A field with a value that is not allowed."""
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {message}", field)


def required(field: str, message: str = "") -> Cause:
    """A field that is missing."""
    return Cause("FieldValueRequired", "Required value" + (f": {message}" if message else ""), field)


def prohibited(field: str, message: str) -> Cause:
    """A field that must not be set or changed this way."""
    return Cause("FieldValueForbidden", f"Forbidden: {message}", field)


def unsupported(field: str, value: Any, choices: Sequence[Any]) -> Cause:
    """A field whose value is none of the choices."""
    known = ", ".join(quoted(choice) for choice in choices)
    return Cause("FieldValueNotSupported", f"Unsupported value: {quoted(value)}: supported values: {known}", field)


def too_long(field: str, limit: int) -> Cause:
    """A field whose value is longer than `limit` bytes."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def not_found(subject: Subject, name: str) -> Refused:
    """404 for an object that does not exist."""
    return Refused(404, "NotFound", f'{subject.resource} "{name}" not found', subject.details(name))


def no_such_path() -> Refused:
    """404 for a path that no resource is served at."""
    return Refused(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(subject: Subject, name: str) -> Refused:
    """409 for a POST of a name that is taken."""
    return Refused(409, "AlreadyExists", f'{subject.resource} "{name}" already exists', subject.details(name))


def conflict(subject: Subject, name: str, why: str = STALE_OBJECT) -> Refused:
    """409 for a write that is based on another state of the object."""
    message = f'Operation cannot be fulfilled on {subject.resource} "{name}": {why}'
    return Refused(409, "Conflict", message, subject.details(name))


def forbidden(subject: Subject, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> Refused:
    """403 with the server's sentence and, where given, machine-readable causes."""
    more: dict[str, Any] = {"causes": [dict(cause) for cause in causes]} if causes else {}
    message = f'{subject.resource} "{name}" is forbidden: {why}' if name else f"{subject.resource} is forbidden: {why}"
    return Refused(403, "Forbidden", message, subject.details(name, **more))


def invalid(subject: Subject, name: str, causes: Sequence[Cause]) -> Refused:
    """422 with one cause for each field; the message joins them as the server does."""
    lines = [*dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes)]
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    details = subject.details(name, subject.kind, causes=[cause.body() for cause in causes])
    return Refused(422, "Invalid", f'{subject.group_kind} "{name}" is invalid: {listed}', details)


def unprocessable() -> Refused:
    """422 for a patch that cannot be applied (a failed `test`, a missing path)."""
    return Refused(422, "Invalid", GENERIC_INVALID, {})


def bad_request(message: str) -> Refused:
    """400 with the given sentence."""
    return Refused(400, "BadRequest", message)


def unauthorized() -> Refused:
    """401 for a missing or unknown bearer token."""
    return Refused(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> Refused:
    """405 for a verb that the resource does not have."""
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(served: Sequence[str]) -> Refused:
    """406 for an `Accept` that names no form we serve."""
    forms = ", ".join(served)
    return Refused(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {forms}", {})


def unsupported_media_type(accepted: Sequence[str]) -> Refused:
    """415 for a body in a form that is not understood here."""
    forms = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {forms}"
    return Refused(415, "UnsupportedMediaType", message)


def too_large(why: str) -> Refused:
    """413 for a request that asks for more than a server does at once."""
    return Refused(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def expired(message: str, continue_token: str | None = None) -> Refused:
    """410 for a version or a continue token that is no longer kept."""
    return Refused(410, "Expired", message, None, {"continue": continue_token} if continue_token else None)


def too_new(version: int, current: int) -> Refused:
    """504 for a version that this server has not reached (client-go knows it by its cause)."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return Refused(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def success(subject: Subject, name: str, uid: str) -> dict[str, Any]:
    """The Status that answers a DELETE which removed the object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": subject.details(name, uid=uid),
    }
