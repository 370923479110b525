"""Ask the server whether something is allowed, before it is tried: an optional right that is missing costs no refusal."""

import asyncio
import logging

from ...client.errors import AccessError, APIError, RequestError
from ...client.resources import Resource
from ...client.rest import Client

logger = logging.getLogger(__name__)

REFUSED_FOR = 30.0
"""For how many seconds a right that is missing is not asked for again."""

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", kind="SelfSubjectAccessReview", namespaced=False
)


class Rights:
    """What the operator's credentials allow. Each question is asked once; a right that is there is there for the process, one that is
    missing is asked for again when somebody wants to know REFUSED_FOR seconds later: roles are often applied a moment too late.

    Everybody may ask about themselves (SelfSubjectAccessReview, authorization.k8s.io/v1). Where no answer comes all the same,
    the right is taken to be there, and the next question is asked anew: the request itself will tell.
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
        """Tell whether the verb is allowed: in the namespace, or, for None, in all of them.

        With a name it is about that object alone, so that a rule limited by `resourceNames` counts. `unanswered` is told where
        no answer comes.
        """
        async with self._asking:
            found = await self._ask(verb, resource, None, name)
            if found is False and namespace is not None:
                found = await self._ask(verb, resource, namespace, name)
        return unanswered if found is None else found

    async def have_all(self, verbs: tuple[str, ...], resource: Resource) -> bool:
        """Tell whether all of the verbs are allowed, in all namespaces."""
        return all([await self.have(verb, resource) for verb in verbs])

    async def _ask(self, verb: str, resource: Resource, namespace: str | None, name: str | None) -> bool | None:
        question = (verb, resource, namespace, name)
        known, now = self._known.get(question), asyncio.get_running_loop().time()
        if known is not None and (known[0] or now - known[1] < REFUSED_FOR):
            return known[0]
        attributes = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
        if namespace is not None:
            attributes["namespace"] = namespace
        if name is not None:
            attributes["name"] = name
        review = {
            "apiVersion": REVIEWS.api_version,
            "kind": REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = (await self._client.create(REVIEWS, review)).body()
        except (APIError, RequestError, AccessError) as exc:
            logger.debug("Whether %s of %r is allowed could not be asked: %s", verb, resource, exc)
            return None
        allowed = bool((answer.get("status") or {}).get("allowed"))
        self._known[question] = (allowed, now)
        return allowed
