"""Applies configurations and reads managed fields."""

from typing import Any

from conformance.api import APPLY, Answer, Api, Body


def entries(body: Body) -> dict[tuple[str, str, str], Any]:
    """The fields by manager, operation and subresource."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in body["metadata"].get("managedFields", [])
    }


async def apply(api: Api, path: str, body: object, manager: str = "one", **params: str | int) -> Answer:
    return await api.call("PATCH", path, body, kind=APPLY, accept="application/json", fieldManager=manager, **params)


async def applied(api: Api, path: str, body: object, manager: str = "one", **params: str | int) -> Body:
    answer = await apply(api, path, body, manager, **params)
    assert answer.code in (200, 201), answer
    found: Body = answer.body
    return found
