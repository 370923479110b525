"""Asks the cluster which of the required rights the current credentials lack."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...client.rest import Client
from ...controller.api.access_review import REVIEWS
from .roles import RoleGrant
from .rules import Right

AT_ONCE: Final = 8
"""How many reviews are sent at the same time."""


async def missing(client: Client, wanted: Iterable[RoleGrant]) -> list[str]:
    """One line for each missing right, in the order of the roles. Raises the client's errors.

    A SelfSubjectAccessReview is about the credentials of the client itself; every user may create one.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def line(right: Right, verb: str, namespace: str | None, name: str) -> str | None:
        async with slots:
            if await _is_allowed(client, right, verb, namespace, name):
                return None
        plural, _, subresource = right.resource.partition("/")
        resource = f"{plural}.{right.group}".rstrip(".") + (f"/{subresource}" if subresource else "")
        resource += f" {name}" if name else ""
        place = "in all namespaces" if namespace is None else f"in the namespace {namespace}"
        return f"missing: {verb} {resource} {place}" + (f" ({'; '.join(right.why)})" if right.why else "")

    found = await asyncio.gather(*(line(*question) for question in _questions(wanted)))
    return [text for text in found if text is not None]


def _questions(wanted: Iterable[RoleGrant]) -> Iterator[tuple[Right, str, str | None, str]]:
    for grant in wanted:
        for right in grant.rights:
            for verb in right.verbs:
                for name in right.names or ("",):
                    yield right, verb, grant.namespace, name


async def _is_allowed(client: Client, right: Right, verb: str, namespace: str | None, name: str) -> bool:
    plural, _, subresource = right.resource.partition("/")
    attributes: dict[str, Any] = {"verb": verb, "group": right.group, "resource": plural}
    if subresource:
        attributes["subresource"] = subresource
    if namespace is not None:
        attributes["namespace"] = namespace
    if name:
        attributes["name"] = name
    review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": {"resourceAttributes": attributes}}
    answer = (await client.create(REVIEWS, review)).body()
    return bool((answer.get("status") or {}).get("allowed"))
