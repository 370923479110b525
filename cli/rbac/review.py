"""Asks the cluster which of the required rights the current credentials lack."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from ...client.rest import Client
from ...controller.api.access_review import is_allowed
from .roles import RoleGrant
from .rules import Right

AT_ONCE: Final = 8
"""How many reviews are sent at the same time."""


async def missing(client: Client, wanted: Iterable[RoleGrant]) -> list[str]:
    """One line for each missing right, in the order of the roles. Raises the client's errors."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def line(right: Right, verb: str, namespace: str | None, name: str) -> str | None:
        plural, _, subresource = right.resource.partition("/")
        async with slots:
            if await is_allowed(
                client,
                verb=verb,
                group=right.group,
                resource=plural,
                subresource=subresource or None,
                namespace=namespace,
                name=name or None,
            ):
                return None
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
