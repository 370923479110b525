"""Discovery: the resources that the server serves, group by group."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from .errors import AccessError, APIError, NotFound, RequestError
from .resources import Resource
from .rest import Client

logger = logging.getLogger(__name__)

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ",".join([_AGGREGATED.format("v2"), _AGGREGATED.format("v2beta1"), "application/json"])
"""Aggregated discovery (KEP-3352) where it is served: two requests for everything; plain JSON is what others answer."""

_INCOMPLETE = (LookupError, TypeError, AttributeError)
"""The errors of reading an answer in which a field is missing or has another type."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Discovery:
    """Ask a server for its resources.

    One broken group (an APIService whose backend is down, hangs, or answers nonsense) is left out, logged as a warning, and
    named in `failures`; the others are returned as if it were not there.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.failures: dict[str, str] = {}
        """The errors of the last `resources`, by group or group/version. The resources of these are unknown, not absent."""

    async def resources(self, groups: Collection[str] | None = None) -> list[Resource]:
        """The resources of all groups, or of the given ones (the core group is ""), each version of each.

        A version is `preferred` when the server prefers it within its group. An absent group has no resources. Raises
        what `Client.request` raises when the server as a whole cannot be asked.
        """
        failures: dict[str, str] = {}
        found: list[Resource] = []
        if groups is None or "" in groups:
            found += await self._root("/api", groups, failures)
        if groups is None or set(groups) - {""}:
            found += await self._root("/apis", groups, failures)
        for what in failures.keys() - self.failures.keys():
            logger.warning("The API %s cannot be discovered and is left out: %s", what, failures[what])
        self.failures = failures
        return found

    async def _root(self, root: str, groups: Collection[str] | None, failures: dict[str, str]) -> list[Resource]:
        try:
            answer = _decode(await self._client.request("GET", root, headers={"Accept": ACCEPT}))
        except NotFound:
            return []
        except (msgspec.MsgspecError, RecursionError) as error:
            raise RequestError(f"GET {root}: expected the API groups in JSON: {error}.", retriable=False) from error
        if answer.get("kind") == "APIGroupDiscoveryList":
            return list(_aggregated(answer, groups, failures))
        if root == "/api":
            versions = [("", str(version), f"/api/{version}", True) for version in answer.get("versions") or ()]
        else:
            versions = list(_group_versions(answer, groups, failures))
        found = await asyncio.gather(*(self._version(*version, failures) for version in versions))
        return [resource for resources in found for resource in resources]

    async def _version(
        self, group: str, version: str, path: str, preferred: bool, failures: dict[str, str]
    ) -> list[Resource]:
        timeout = self._client.settings.discovery_timeout
        try:
            answer = _decode(await self._client.request("GET", path, timeout=timeout, retry=False))
            return list(_legacy(answer, group, version, preferred))
        except NotFound:
            return []  # went away between the two requests
        except (APIError, RequestError, AccessError, msgspec.MsgspecError, RecursionError) as error:
            failures[f"{group}/{version}".strip("/")] = str(error)
            return []
        except _INCOMPLETE as error:
            failures[f"{group}/{version}".strip("/")] = f"its description is incomplete: {error!r}"
            return []


def _group_versions(
    answer: Mapping[str, Any], groups: Collection[str] | None, failures: dict[str, str]
) -> Iterator[tuple[str, str, str, bool]]:
    for item in answer.get("groups") or ():
        try:
            group = str(item["name"])
            if groups is None or group in groups:
                yield from _versions_of(group, item)
        except _INCOMPLETE as error:
            failures[str(item)[:80]] = f"its description is incomplete: {error!r}"


def _versions_of(group: str, item: Mapping[str, Any]) -> list[tuple[str, str, str, bool]]:
    versions = [str(each["version"]) for each in item.get("versions") or ()]
    # A server that names no preferred version lists that first.
    preferred = (item.get("preferredVersion") or {}).get("version") or next(iter(versions), None)
    return [(group, version, f"/apis/{group}/{version}", version == preferred) for version in versions]


def _legacy(answer: Mapping[str, Any], group: str, version: str, preferred: bool) -> Iterator[Resource]:
    items = answer.get("resources") or []
    subresources: dict[str, set[str]] = {}
    for item in items:
        plural, _, subresource = str(item["name"]).partition("/")
        if subresource:
            subresources.setdefault(plural, set()).add(subresource)
    for item in items:
        plural = str(item["name"])
        if "/" not in plural:
            yield Resource(
                group=str(item.get("group") or group),
                version=str(item.get("version") or version),
                plural=plural,
                kind=str(item["kind"]),
                singular=str(item.get("singularName") or item["kind"].lower()),
                shortcuts=_texts(item.get("shortNames")),
                categories=_texts(item.get("categories")),
                subresources=frozenset(subresources.get(plural, ())),
                namespaced=bool(item["namespaced"]),
                preferred=preferred,
                verbs=_texts(item.get("verbs")),
            )


def _aggregated(
    answer: Mapping[str, Any], groups: Collection[str] | None, failures: dict[str, str]
) -> Iterator[Resource]:
    for item in answer.get("items") or ():
        group = str((item.get("metadata") or {}).get("name") or "")
        if groups is not None and group not in groups:
            continue
        # The server lists versions in the order of its preference.
        for index, each in enumerate(item.get("versions") or ()):
            what = f"{group}/{each.get('version')}".strip("/")
            if each.get("freshness") == "Stale":
                failures[what] = "the server could not reach it and shows what it remembers"
            try:
                yield from [
                    _resource(group, str(each["version"]), entry, preferred=index == 0)
                    for entry in each.get("resources") or ()
                    if (entry.get("responseKind") or {}).get("kind")  # else there are only subresources of it
                ]
            except _INCOMPLETE as error:
                failures[what] = f"its description is incomplete: {error!r}"


def _resource(group: str, version: str, entry: Mapping[str, Any], *, preferred: bool) -> Resource:
    kind = str(entry["responseKind"]["kind"])
    return Resource(
        group=group,
        version=version,
        plural=str(entry["resource"]),
        kind=kind,
        singular=str(entry.get("singularResource") or kind.lower()),
        shortcuts=_texts(entry.get("shortNames")),
        categories=_texts(entry.get("categories")),
        subresources=_texts(each["subresource"] for each in entry.get("subresources") or ()),
        namespaced=entry["scope"] == "Namespaced",
        preferred=preferred,
        verbs=_texts(entry.get("verbs")),
    )


def _texts(values: Iterable[Any] | None) -> frozenset[str]:
    return frozenset(str(value) for value in values or ())
