"""Reconcilers as users write them, only type-checked: the package is called, and its modules are imported all the same."""

import ctl
from ctl import controller
from ctl.controller.building import builder
from ctl.controller.program.manager import Manager


async def reconcile(key: ctl.Key, context: ctl.Context) -> ctl.Result | None:
    child = context.own({"metadata": {}}, suffix="child")
    written = await context.ensure("configmaps", child)
    if written.change is ctl.Change.CREATED:
        context.info(reason="Created", message=written.object.name)
    await context.set_status({"children": 1}, ctl.Condition("Ready", True))
    return ctl.Result(requeue_after=60)


sentence = ctl.controller("kopfexamples.kopf.dev").owns("deployments.apps").reconciles(reconcile)
imported = controller("kopfexamples.kopf.dev").watches_source(ctl.every(60)).reconciles(reconcile)
long = (
    builder.controller("kopfexamples.kopf.dev")
    .with_predicate(ctl.predicates.generation_changed())
    .reconciles(reconcile)
)
manager: ctl.Manager = Manager()


@ctl.declare
@ctl.controller("kopfexamples.kopf.dev").reconciles
async def declared(key: ctl.Key, context: ctl.Context) -> None:
    await context.add_finalizer("example.com/mine")


async def main() -> None:
    channel: ctl.Channel[str] = ctl.Channel()
    fed = ctl.controller("kopfexamples.kopf.dev").watches_source(channel, lambda name, _: [ctl.Key("default", name)])
    await ctl.serve(fed.reconciles(reconcile))
