"""Make the peering of an operator: whom it announces itself as, and where."""

import asyncio

from ...client.resources import Resource
from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.leader.leadership import Leadership
from ...controller.peering.gate import Peering
from ...controller.peering.records import own_identity
from ...controller.peering.rules import PeeringOptions, Rank
from ...informers.factory import SharedInformerFactory
from ..settings import OperatorSettings


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
    lease = "" if leadership is None else f"{leadership.settings.namespace}/{leadership.settings.name}"
    options = peering_options(settings, identity, "" if leadership is not None and leadership.alone else lease)

    async def may(verb: str, resource: Resource, namespace: str | None) -> bool:
        # Of that one object, so that a role may be limited to it by `resourceNames`.
        return await rights.have(verb, resource, namespace, name=options.name)

    peering = Peering(client, factory, options, leadership=leadership, may=may)
    if leadership is not None and leadership.alone:
        leadership.subscribe(lambda _: None if leadership.alone else peering.share(lease))
    return peering
