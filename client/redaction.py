"""What people read has no logins of URLs in it, and no values of Secrets: in errors, logs, labels of metrics, pages and commands.

Pure.
"""

import re

_PORT = r"\d{1,5}(?![^/?#\s'\"])"
_LOGIN = re.compile(
    # Behind `://`: all up to the last @ of the host's part; also with a slash in the password, where what stands there is no port.
    r"(?<=://)(?:[^\s/?#'\"]{0,1024}@"
    rf"|[^\s/?#'\"@:\[]{{1,256}}:(?!{_PORT})[^\s'\"]{{0,1024}}@)"
    # USER:PASSWORD@HOST without a scheme, as a word of its own.
    r"|(?<![^\s'\"(])[^\s/?#'\":@(]{1,256}:[^\s/?#'\"@]{1,256}@"
)

_SECRETS = re.compile(r"/api/v1/(?:namespaces/[^/?]+/)?secrets(?:[/?]|$)")
# What servers quote of an object that they refuse: a value, or what stands around the place where its JSON is broken.
_QUOTED = re.compile(
    r"((?:Invalid|Unsupported|Duplicate) value: |error found in )"
    r'(?:"[^"\\]*(?:\\.[^"\\]*)*"|.*)',
    re.DOTALL,
)


def redacted(text: str) -> str:
    """A text without the logins of URLs that are in it (`https://USER:PASSWORD@HOST` becomes `https://HOST`)."""
    return _LOGIN.sub("", text) if "@" in text else text


def refusal_of(request: str | None, message: str) -> str:
    """What a server says of a request; where that is about Secrets, without the values that it quotes."""
    return _QUOTED.sub(r"\1...", message) if request is not None and _SECRETS.search(request) else message
