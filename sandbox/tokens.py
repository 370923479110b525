"""Tokens of service accounts are signed texts that say whose they are and until when."""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from .history import Stored
from .resources import Resource
from .rights import AUTHENTICATED, User
from .status import Cause, Refused, Subject, invalid, wrong
from .store import Store

ISSUER: Final = "https://kubernetes.default.svc"
_SUBJECT: Final = Subject("authentication.k8s.io", "tokenrequests", "TokenRequest")
_LEAST: Final = 600
_USUAL: Final = 3600
_MOST: Final = 1 << 32


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def _decoded(text: str) -> Any:
    return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


class Tokens:
    """The issuer and judge of the tokens of service accounts. `secret` is what they are signed with."""

    def __init__(self, store: Store, secret: bytes) -> None:
        self._store = store
        self._secret = secret

    def request(self, account: Stored, body: dict[str, Any], now: str, serial: str) -> dict[str, Any]:
        """The answer to a TokenRequest for an account: the request with its status. Raises a 422."""
        spec = dict(body.get("spec") or {})
        seconds = spec.get("expirationSeconds")
        seconds = _USUAL if seconds is None else int(seconds)
        causes: list[Cause] = []
        if seconds < _LEAST:
            causes.append(wrong("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds > _MOST:
            causes.append(
                wrong("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
            )
        if causes:
            raise invalid(_SUBJECT, "", causes)
        begun = datetime.fromisoformat(now)
        ends = begun + timedelta(seconds=seconds)
        audiences = spec.get("audiences") or [ISSUER]
        claims = {
            "aud": audiences,
            "exp": int(ends.timestamp()),
            "iat": int(begun.timestamp()),
            "iss": ISSUER,
            "jti": serial,
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
            "nbf": int(begun.timestamp()),
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        meta = {"name": account.name, "namespace": account.namespace, "uid": account.uid, "creationTimestamp": now}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": meta,
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": self._signed(claims), "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")},
        }

    def _signed(self, claims: dict[str, Any]) -> str:
        head = f"{_encoded({'alg': 'HS256', 'kid': 'sandbox'})}.{_encoded(claims)}"
        return f"{head}.{self._signature(head)}"

    def _signature(self, head: str) -> str:
        found = hmac.new(self._secret, head.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(found).rstrip(b"=").decode()

    def user(self, token: str, accounts: Resource, now: str) -> User | None:
        """The user of a valid token; None for one that is foreign, expired, or of an account that is gone."""
        head, _, signature = token.rpartition(".")
        if not head or not hmac.compare_digest(signature, self._signature(head)):
            return None
        claims = _decoded(head.partition(".")[2])
        place = claims["kubernetes.io"]
        account = place["serviceaccount"]
        stored = self._store.get(accounts, place["namespace"], account["name"])
        expired = claims["exp"] <= datetime.fromisoformat(now).timestamp()
        if expired or ISSUER not in claims["aud"] or stored is None or stored.uid != account["uid"]:
            return None
        namespace = place["namespace"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        return User(claims["sub"], groups, account["uid"], extra)


def looks_issued(token: str) -> bool:
    """Whether a token claims to be one of a service account of this server."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    try:
        return bool(_decoded(parts[1]).get("iss") == ISSUER)
    except (ValueError, AttributeError, msgspec.DecodeError):
        return False


def no_account(name: str) -> Refused:
    """The 404 for a token of an account that does not exist."""
    return Refused(404, "NotFound", f'serviceaccounts "{name}" not found', {"name": name, "kind": "serviceaccounts"})
