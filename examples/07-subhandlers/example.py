import ctl


@ctl.on.create("kopfexamples")
def create_fn(spec, **_):
    for item in spec.get("items", ["first", "second"]):

        @ctl.subhandler(id=item)
        def item_fn(item=item, **_):  # each with its own item
            return {"made": item}

        # The same, for a function that is defined elsewhere:
        ctl.register(check, id=f"check-{item}", param=item, retries=3, backoff=0.5)


def check(param, retry, logger, **_):
    if retry < 1:
        raise ctl.TemporaryError(f"{param} is not ready yet", delay=0.2)
    logger.info("%s is ready after %d attempts", param, retry + 1)
