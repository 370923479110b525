import ctl


class MyError(Exception):
    pass


@ctl.on.create("kopfexamples")
def instant_failure(**_):
    raise ctl.PermanentError("There is no way to handle this object.")


@ctl.on.create("kopfexamples", retries=3)
def eventual_success(retry, logger, **_):
    if retry < 2:
        raise ctl.TemporaryError(f"Attempt {retry} is too early.", delay=0.3)
    logger.info("Attempt %s is just right.", retry)
    return {"attempts": retry + 1}


@ctl.on.create("kopfexamples", retries=2, backoff=0.3)
def eventual_failure(**_):
    raise MyError("An error that nobody expected.")


@ctl.on.create("kopfexamples", errors=ctl.ErrorsMode.IGNORED)
def ignored_error(**_):
    raise MyError("An error that does not matter.")


@ctl.on.create("kopfexamples", errors=ctl.ErrorsMode.PERMANENT)
def fatal_error(**_):
    raise MyError("An error after which there is no point in trying again.")
