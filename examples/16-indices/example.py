import ctl


@ctl.index("kopfexamples")
def by_field(name, spec, **_):
    return {spec.get("field"): name}


@ctl.index("v1", "configmaps", labels={"example": "indices"})
async def configs(name, body, **_):
    return {name: body.get("data", {}).get("text")}


@ctl.on.create("kopfexamples")
@ctl.on.update("kopfexamples", field="spec.field")
def change_fn(spec, by_field: ctl.Index, logger, **_):
    field = spec.get("field")
    logger.info("with the field %r: %s", field, sorted(by_field[field]))


@ctl.on.event("kopfexamples", when=lambda name, configs, **_: name in configs)
async def event_fn(name, configs: ctl.Index, logger, **_):
    logger.info("the text for %s: %s", name, *configs[name])
