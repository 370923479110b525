import ctl


@ctl.on.create("kopfexamples")
def create_fn(name, **_):
    return {"message": f"hello, {name}"}


@ctl.on.update("kopfexamples")
def update_fn(retry, spec, **_):
    if retry == 0:
        raise ctl.TemporaryError("It is too early.", delay=15 * 60)
    return {"field": spec["field"], "attempts": retry + 1}
