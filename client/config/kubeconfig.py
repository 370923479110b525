"""Merges kubeconfig documents, and reads one context of them.

Pure: `loading` reads the files and the environment. The format is the `v1 Config` of client-go's clientcmd; its
merging rules apply: the first document that has a name wins, the first that sets the current context wins, and relative
paths start at the folder of the document they stand in.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ...runtime.texts import redacted
from ..errors import AccessError
from .access import TLS, address

_IN_NAMES = "!#$&'*+-.^_`|~"
"""The characters that the name of a header may have, besides letters and digits."""
_breaks = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search


@dataclass(frozen=True)
class Document:
    """One parsed kubeconfig file and where it is."""

    path: Path
    content: Any


@dataclass(frozen=True, repr=False)
class User:
    """The login of a user in a kubeconfig. `path` is the file that describes it."""

    name: str = ""
    path: Path | None = None
    token: str | None = None
    token_file: Path | None = None
    username: str | None = None
    password: str | None = None
    exec: Mapping[str, Any] | None = None
    auth_provider: Mapping[str, Any] | None = None
    impersonation: tuple[tuple[str, str], ...] = ()
    """The headers for impersonation."""


@dataclass(frozen=True, repr=False)
class Selection:
    """One context of a kubeconfig, with its cluster and user."""

    context: str
    origin: str
    server: str
    """As it is written there."""
    tls: TLS
    user: User
    namespace: str | None = None
    proxy: str | None = None
    compression: bool = True


@dataclass(frozen=True)
class _Entry:
    path: Path
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Kubeconfig:
    """Several documents, merged."""

    paths: tuple[Path, ...]
    current_context: str | None
    clusters: Mapping[str, _Entry] = field(default_factory=dict, repr=False)
    users: Mapping[str, _Entry] = field(default_factory=dict, repr=False)
    contexts: Mapping[str, _Entry] = field(default_factory=dict, repr=False)

    @classmethod
    def merge(cls, documents: Sequence[Document]) -> "Kubeconfig":
        """Merge documents. Raises AccessError for a document that is no kubeconfig."""
        current: str | None = None
        sections: dict[str, dict[str, _Entry]] = {"cluster": {}, "user": {}, "context": {}}
        for document in documents:
            if not isinstance(document.content, Mapping):
                found = _kind(document.content)
                raise _broken(document, f"expected a mapping with clusters, users and contexts, found {found}")
            current = current or document.content.get("current-context") or None
            for section, entries in sections.items():
                for name, body in _entries(document, section):
                    entries.setdefault(name, _Entry(document.path, body))
        paths = tuple(document.path for document in documents)
        return cls(paths, current, sections["cluster"], sections["user"], sections["context"])

    @property
    def origin(self) -> str:
        """The files, for messages."""
        return ", ".join(str(path) for path in self.paths)

    def select(self, context: str | None = None) -> Selection:
        """Read the context of this name, or the current one. Raises AccessError with the names that exist."""
        name = context or self.current_context
        known = ", ".join(sorted(self.contexts)) or "none"
        if name is None:
            raise AccessError(
                f"The kubeconfig {self.origin} has no current-context. Name one of its contexts ({known}), or set it "
                "with `kubectl config use-context NAME`."
            )
        entry = self.contexts.get(str(name))
        if entry is None:
            what = "no such context" if context else "a current-context that does not exist"
            raise AccessError(f"The kubeconfig {self.origin} has {what}: {name!r}. Its contexts are: {known}.")
        origin = f"context {str(name)!r} of {entry.path}"
        cluster = self._find("cluster", self.clusters, entry, origin)
        user = self._find("user", self.users, entry, origin)
        if cluster is None:
            raise AccessError(f"The {origin} names no cluster. Add `cluster: NAME` to it.")
        tls = _tls(cluster, user)
        return Selection(
            context=str(name),
            origin=origin,
            server=_server(cluster, tls, origin),
            tls=tls,
            user=_user(user, str(entry.body.get("user") or "")),
            namespace=_text(entry, "namespace"),
            proxy=_proxy(cluster),
            compression=not _flag(cluster, "disable-compression"),
        )

    @staticmethod
    def _find(what: str, entries: Mapping[str, _Entry], context: _Entry, origin: str) -> _Entry | None:
        found = context.body.get(what)
        # Names may be numbers, written without quotes: they are compared as texts.
        name = str(found) if found not in (None, "") else None
        if name is None:
            return None
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise AccessError(f"The {origin} names the {what} {name!r}, which is not there. The {what}s are: {known}.")
        return entries[name]


def _entries(document: Document, section: str) -> list[tuple[str, Mapping[str, Any]]]:
    listed = document.content.get(f"{section}s") or []
    if not isinstance(listed, list):
        raise _broken(document, f"`{section}s` must be a list, found {_kind(listed)}")
    result = []
    for index, item in enumerate(listed):
        if not isinstance(item, Mapping) or item.get("name") in {None, ""}:
            raise _broken(document, f"`{section}s[{index}]` must be a mapping with a `name`")
        body = item.get(section) or {}
        if not isinstance(body, Mapping):
            raise _broken(document, f"`{section}` of {item['name']!r} must be a mapping, found {_kind(body)}")
        result.append((str(item["name"]), body))
    return result


def _server(cluster: _Entry, tls: TLS, origin: str) -> str:
    server = _text(cluster, "server")
    if server is None:
        raise AccessError(f"The cluster of {origin} has no `server`: expected a URL such as https://host:6443.")
    try:
        address(server, tls)
    except ValueError:
        raise AccessError(
            f"The cluster of {origin} has the server {redacted(server)!r}: expected https://HOST[:PORT][/PATH]."
        ) from None
    return server


def _proxy(cluster: _Entry) -> str | None:
    proxy = _text(cluster, "proxy-url")
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        # Without the value: there may be a password in it.
        raise _broken(cluster, "`proxy-url` must be http://HOST[:PORT]")
    return proxy


def _tls(cluster: _Entry, user: _Entry | None) -> TLS:
    user = user or _Entry(cluster.path, {})
    insecure = _flag(cluster, "insecure-skip-tls-verify")
    for key in ("certificate-authority", "certificate-authority-data"):
        if insecure and _text(cluster, key) is not None:
            raise AccessError(
                f"The kubeconfig {cluster.path} has `{key}` together with `insecure-skip-tls-verify`: expected one of them, since a "
                "server is either verified or not. Remove the other."
            )
    return TLS(
        ca_file=_path(cluster, "certificate-authority"),
        ca_data=_data(cluster, "certificate-authority-data"),
        certificate_file=_path(user, "client-certificate"),
        certificate_data=_data(user, "client-certificate-data"),
        key_file=_path(user, "client-key"),
        key_data=_data(user, "client-key-data"),
        server_name=_text(cluster, "tls-server-name"),
        insecure=insecure,
    )


def _user(entry: _Entry | None, name: str) -> User:
    if entry is None:
        return User()
    return User(
        name=name,
        path=entry.path,
        token=_text(entry, "token"),
        token_file=_path(entry, "tokenFile"),
        username=_text(entry, "username"),
        password=_text(entry, "password"),
        exec=_mapping(entry, "exec", name),
        auth_provider=_mapping(entry, "auth-provider", name),
        impersonation=_impersonation(entry, name),
    )


def _impersonation(entry: _Entry, name: str) -> tuple[tuple[str, str], ...]:
    user, uid, groups = _text(entry, "as"), _text(entry, "as-uid"), entry.body.get("as-groups") or []
    if not _is_texts(groups):
        raise _broken(entry, f"`as-groups` must be a list of texts, found {_kind(groups)}")
    extra = entry.body.get("as-user-extra") or {}
    if not isinstance(extra, Mapping) or not all(_is_texts(values) for values in extra.values()):
        raise _broken(entry, "`as-user-extra` must be a mapping of lists of texts")
    if user is None:
        for what, value in (("a uid", uid), ("groups", groups), ("extras", extra)):
            if value:
                raise AccessError(
                    f"The user {name!r} in {entry.path} impersonates {what} without a user. Add `as: NAME`."
                )
        return ()
    headers = [("Impersonate-User", user), *([("Impersonate-Uid", uid)] if uid is not None else [])]
    headers += [("Impersonate-Group", group) for group in groups]
    for key, values in extra.items():
        headers += [(f"Impersonate-Extra-{quote(str(key), safe=_IN_NAMES)}", value) for value in values]
    return tuple(headers)


def _is_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(item, str) and _breaks(item) is None for item in found)


def _broken(where: Document | _Entry, what: str) -> AccessError:
    return AccessError(f"The kubeconfig {where.path} is broken: {what}.")


def _text(entry: _Entry, key: str) -> str | None:
    value = entry.body.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _broken(entry, f"`{key}` must be a text, found {_kind(value)}; put it in quotes")
    if not key.endswith("-data") and _breaks(value):
        # It goes into a header, or is an address or a path.
        raise _broken(entry, f"`{key}` has a line break in it, or another character that cannot be sent")
    return value


def _flag(entry: _Entry, key: str) -> bool:
    value = entry.body.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    advice = "; write it without quotes" if isinstance(value, str) else ""
    raise _broken(entry, f"`{key}` must be true or false, found {_kind(value)}{advice}")


def _path(entry: _Entry, key: str) -> Path | None:
    value = _text(entry, key)
    return entry.path.parent / value if value is not None else None


def _data(entry: _Entry, key: str) -> bytes | None:
    value = _text(entry, key)
    if value is None:
        return None
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _broken(entry, f"`{key}` must be base64 of PEM: {error}") from error


def _mapping(entry: _Entry, key: str, name: str) -> Mapping[str, Any] | None:
    value = entry.body.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise _broken(entry, f"`{key}` of the user {name!r} must be a mapping, found {_kind(value)}")
    return value or None


def _kind(value: object) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


_KINDS: Final = {
    type(None): "nothing",
    bool: "a boolean",
    dict: "a mapping",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "a text",
}
