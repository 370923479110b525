"""Whether an operator takes part in an election, over which Lease, and among which peers; and as whom."""

import asyncio
import base64
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ...client.config.access import Access, AccessSource
from ...client.config.loading import ACCOUNT, is_in_cluster
from ...client.errors import AccessError, APIError, NotFound, RequestError
from ...client.resources import Resource
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.leader.leadership import Alone, Leadership
from ...controller.leader.lease_client import LEASES, LeaderElectionConfig
from ...controller.leader.lease_rules import LeaseRules
from ...controller.peering.gate import Peering
from ...controller.peering.records import own_identity
from ...controller.peering.rules import PeeringOptions, Rank
from ...informers.factory import SharedInformerFactory
from ..declaration.registry import OperatorRegistry
from ..settings import OperatorSettings

logger = logging.getLogger(__name__)

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", kind="SelfSubjectReview", namespaced=False)
VERBS = ("get", "create", "update")
LONGEST = 253
"""How long a name in Kubernetes may be."""
FALLBACK_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What an election is about: the operator's settings, handlers and sources, and its way to the server.

    `sources` are files and modules; without them, those that the handlers were declared in. `account` is where the pod's
    service account is mounted, if this is a pod.
    """

    settings: OperatorSettings
    registry: OperatorRegistry
    access: Access | AccessSource
    sources: Collection[str] = ()
    is_access_chosen: bool = False
    """Whether the access was given, and so may be another cluster's than the pod's."""
    account: Path = ACCOUNT

    @property
    def is_automatic(self) -> bool:
        """Whether the settings do not say if there is an election."""
        return self.settings.leadership.elect is None

    @property
    def is_wanted(self) -> bool:
        """Whether there is an election: as the settings say; if they do not, in a cluster only."""
        asked = self.settings.leadership.elect
        return self._in_cluster if asked is None else asked

    @property
    def _in_cluster(self) -> bool:
        return not self.is_access_chosen and not os.environ.get("KUBECONFIG") and is_in_cluster(self.account)

    async def namespace(self, client: Client) -> str:
        """Where the Lease is."""
        asked = self.settings.leadership.lease_namespace
        if asked is not None:
            return asked
        mounted = self.account / "namespace"
        if self._in_cluster and mounted.is_file():
            return mounted.read_text().strip() or FALLBACK_NAMESPACE
        return (await client.access()).default_namespace or FALLBACK_NAMESPACE

    async def name(self, client: Client) -> str:
        """The name of the Lease: the same for all replicas and all versions of an operator, and for no other operator.

        Raises AccessError when it cannot be worked out.
        """
        asked = self.settings.leadership.lease_name
        return asked if asked is not None else lease_name(await self._user(client), self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """Where the handlers come from."""
        return tuple(self.sources) or tuple(dict.fromkeys(_modules(self.registry)))

    async def _user(self, client: Client) -> str:
        token = self.account / "token"
        if self._in_cluster and (subject := _subject(token.read_text())) is not None:
            return subject
        review = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind}
        try:
            answer = (await client.create(REVIEWS, review)).body()
        except APIError as exc:
            raise AccessError(
                f"The lease for the election cannot be named, since the server does not tell this operator's user ({exc}). Name it: "
                "--lease-name, or lease_name= of operator()."
            ) from exc
        return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "anonymous")


async def candidate(candidacy: Candidacy, client: Client, rights: Rights) -> Leadership | None:
    """Make the leadership of an operator, not started yet; None where there is no election.

    Raises AccessError when an election was asked for and the rights for it are missing. When the settings do not say, a line in the
    log names what is missing, and the operator acts without an election, as Kopf would, until the rights are there.
    """
    if not candidacy.is_wanted:
        return None
    known = candidacy.settings.leadership
    namespace, name = await candidacy.namespace(client), await candidacy.name(client)
    missing = [verb for verb in VERBS if not await _may(rights, verb, namespace, name)]
    alone: Alone | None = None
    if missing:
        leases = f"apiGroups: [{LEASES.group}], resources: [{LEASES.plural}]"
        rules = f"{{{leases}, verbs: [create]}} and {{{leases}, resourceNames: [{name}], verbs: [get, update, watch]}}"
        text = f"The right to {', '.join(missing)} leases in the namespace {namespace} is missing"
        if not candidacy.is_automatic:
            raise AccessError(
                f"{text}, and --leader-elect needs it for the Lease {name!r}. Add these rules to the role: {rules}"
            )
        logger.info("%s: running without leader election, so run one replica only, or add these rules: %s", text, rules)
        alone = Alone(f"{text[0].lower()}{text[1:]}", lambda: _may_join(client, namespace, name))
    settings = LeaderElectionConfig(
        name,
        namespace,
        known.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}",
        LeaseRules(known.lease_duration, known.renew_deadline, known.retry_period),
        labels=dict(known.labels),
        files=tuple(Path(file).name for file in candidacy.files),
        resources=tuple(sorted({str(selector) for selector in candidacy.registry.selectors()})),
        stall_limit=known.stall_limit,
    )
    return Leadership(candidacy.access, settings, client.settings, alone=alone)


async def _may(rights: Rights, verb: str, namespace: str, name: str, *, unanswered: bool = True) -> bool:
    # The right to create cannot be limited to a name; the others can.
    return await rights.have(verb, LEASES, namespace, name=None if verb == "create" else name, unanswered=unanswered)


async def _may_join(client: Client, namespace: str, name: str) -> bool:
    """Whether the rights for the election are certainly there: a process that joins does nothing until it holds the lease."""
    rights = Rights(client)
    for verb in VERBS:
        if not await _may(rights, verb, namespace, name, unanswered=False):
            return False
    try:
        await client.get(LEASES, name, namespace)
    except NotFound:
        return True
    except (APIError, RequestError, AccessError) as exc:
        logger.debug("The lease %s/%s cannot be read yet: %s", namespace, name, exc)
        return False
    return True


def peering_options(settings: OperatorSettings, identity: str, lease: str) -> PeeringOptions:
    """How an operator is a peer of others. `lease` is `namespace/name` of the Lease that its replicas share, empty without one."""
    known = settings.peering
    return PeeringOptions(
        Rank(identity, known.priority, lease, shares=bool(settings.watching.shard_selectors)),
        name=known.name,
        lifetime=known.lifetime,
        clusterwide=known.clusterwide,
        mandatory=known.mandatory,
        stealth=known.stealth,
    )


async def peers_of(
    settings: OperatorSettings,
    client: Client,
    factory: SharedInformerFactory,
    rights: Rights,
    *,
    leadership: Leadership | None,
    identity: str | None,
) -> Peering | None:
    """The peering of an operator, not started yet; None if it is to know of no others."""
    if settings.peering.standalone:
        return None
    if not identity:
        # The name of the host may have to be asked for.
        identity = await asyncio.to_thread(own_identity)
    lease = "" if leadership is None else leadership.config.lease
    options = peering_options(settings, identity, "" if leadership is not None and leadership.alone else lease)

    async def may(verb: str, resource: Resource, namespace: str | None) -> bool:
        # Of that one object, so that a role may be limited to it by `resourceNames`.
        return await rights.have(verb, resource, namespace, name=options.name)

    peering = Peering(client, factory, options, leadership=leadership, may=may)
    if leadership is not None and leadership.alone:
        leadership.subscribe(lambda _: None if leadership.alone else peering.share(lease))
    return peering


def lease_name(user: str, files: Iterable[str]) -> str:
    """`ctl-{service account}-{first file or module}`, of what may be in the name of an object."""
    account = user.rpartition(":")[2]
    first = next(iter(files), "operator")
    path = Path(first)
    source = path.stem if path.suffix == ".py" else first
    return re.sub(r"[^a-z0-9.-]+", "-", f"ctl-{account}-{source}".lower())[:LONGEST].strip(".-")


def _subject(token: str) -> str | None:
    """The subject of a service account's token, unverified."""
    parts = token.strip().split(".")
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        subject = json.loads(base64.urlsafe_b64decode(padded))["sub"]
    except (IndexError, ValueError, KeyError, TypeError):
        return None
    return str(subject)


def _modules(registry: OperatorRegistry) -> Iterable[str]:
    for spec in registry.specs():
        code = getattr(spec.fn, "__code__", None)
        module = getattr(spec.fn, "__module__", None)
        if module and module != "__main__":
            yield module
        elif code is not None:
            yield code.co_filename
