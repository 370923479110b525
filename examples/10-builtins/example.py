import ctl


@ctl.on.create("v1", "configmaps", labels={"example": "builtins"})
@ctl.on.update("v1", "configmaps", labels={"example": "builtins"}, field="data")
def config_fn(body, patch, logger, **_):
    count = len(body.get("data") or {})
    patch.metadata.annotations["example.com/entries"] = str(count)
    logger.info("%d entries", count)


@ctl.on.event("", "v1", "namespaces")
def namespace_fn(name, type, logger, **_):
    logger.info("namespace event %s of %s", type, name)


@ctl.on.event("apps", "v1", "deployments")
def deployment_fn(name, spec, status, logger, **_):
    logger.info("%s has %s of %s replicas", name, status.get("readyReplicas", 0), spec.get("replicas", 1))
