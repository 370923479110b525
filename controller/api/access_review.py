"""The server is asked whether a request is allowed before an optional one is made, so that a missing right costs no refusal."""

import asyncio
import logging

from ...client.errors import AccessError, APIError, RequestError
from ...client.resources import Resource
from ...client.rest import Client

logger = logging.getLogger(__name__)

REFUSED_FOR = 30.0
"""Seconds until a missing right is asked for again."""

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", kind="SelfSubjectAccessReview", namespaced=False
)


async def is_allowed(client: Client, **attributes: str | None) -> bool:
    """Ask about one request of the client's own credentials; every user may ask. None leaves an attribute out."""
    given = {name: value for name, value in attributes.items() if value is not None}
    review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": {"resourceAttributes": given}}
    answer = (await client.create(REVIEWS, review)).body()
    return bool((answer.get("status") or {}).get("allowed"))


class Rights:
    """The rights of the operator's credentials, by SelfSubjectAccessReview, which everybody may create.

    A right that was granted is remembered for the process. A missing one is asked for again after REFUSED_FOR seconds, since roles are often
    applied a moment too late. Where no answer comes, the right is assumed, and asked for again next time: the request itself will tell.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # Whether it is allowed, and when (loop time) that was said.
        self._known: dict[tuple[str, Resource, str | None, str | None], tuple[bool, float]] = {}
        self._asking = asyncio.Lock()

    async def have(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None = None,
        *,
        name: str | None = None,
        unanswered: bool = True,
    ) -> bool:
        """Whether the verb is allowed in the namespace, or, for None, in all of them; `unanswered` where no answer comes.

        With a name, the question is about that object, so that a rule limited by `resourceNames` counts.
        """
        async with self._asking:
            found = await self._ask(verb, resource, None, name)
            if found is False and namespace is not None:
                found = await self._ask(verb, resource, namespace, name)
        return unanswered if found is None else found

    async def have_all(self, verbs: tuple[str, ...], resource: Resource) -> bool:
        """Whether all of the verbs are allowed, in all namespaces."""
        return all([await self.have(verb, resource) for verb in verbs])

    async def _ask(self, verb: str, resource: Resource, namespace: str | None, name: str | None) -> bool | None:
        question = (verb, resource, namespace, name)
        known, now = self._known.get(question), asyncio.get_running_loop().time()
        if known is not None and (known[0] or now - known[1] < REFUSED_FOR):
            return known[0]
        try:
            allowed = await is_allowed(
                self._client,
                verb=verb,
                group=resource.group,
                version=resource.version,
                resource=resource.plural,
                namespace=namespace,
                name=name,
            )
        except (APIError, RequestError, AccessError) as exc:
            logger.debug("Whether %s of %r is allowed could not be asked: %s", verb, resource, exc)
            return None
        self._known[question] = (allowed, now)
        return allowed
