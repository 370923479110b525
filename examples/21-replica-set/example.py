"""A replica set of ConfigMaps: each ConfigSet has as many of them as it asks for, whatever happens to them."""

import ctl

NAME = "configsets.example.com"


@ctl.declare
@ctl.controller(NAME).owns("configmaps").concurrency(4).timeout(60).reconciles
async def reconcile(key, context):
    body = context.body()
    if body is None or context.is_being_deleted:
        return  # the garbage collector deletes what it owned

    spec = body["spec"]
    if spec.get("replicas", 1) > 100:
        text = f"at most 100 replicas can be served; found {spec['replicas']}"
        await context.set_status(None, ctl.Condition("Ready", False, "TooMany", text))
        raise ctl.TerminalError(text)  # a retry would not help

    wanted = {ctl.ownership.child_name(key.name, str(number)) for number in range(spec.get("replicas", 1))}
    for child in context.owned("configmaps"):
        if child.name not in wanted:
            await context.delete("configmaps", child)
            context.info(reason="Deleted", message=f"{child.name} is one too many")
    for name in sorted(wanted):
        child = context.own({"metadata": {"name": name}, "data": spec.get("data", {})})
        written = await context.ensure("configmaps", child)  # sends nothing if nothing differs
        if written.change is ctl.Change.CREATED:
            context.info(reason="Created", message=f"{name} was missing")

    there = len(context.owned("configmaps"))  # includes our own writes at once
    ready = ctl.Condition("Ready", there == len(wanted), "AllThere", f"{there} of {len(wanted)} are there")
    await context.set_status({"replicas": there}, ready)
    print(f"{key}: {there} replicas; because of {context.trigger.name} {context.trigger.change}")
