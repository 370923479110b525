import os
import time

import ctl

NAME = os.environ["REPLICA"]


@ctl.on.startup()
def configure(settings, **_):
    settings.leadership.identity = NAME
    lease = int(os.environ["LEASE"])
    settings.leadership.lease_duration, settings.leadership.renew_deadline = lease, lease * 2 / 3
    settings.leadership.retry_period = 0.5


@ctl.on.resume("kopfexamples")
@ctl.timer("kopfexamples", interval=0.2)
async def beat(patch, **_):
    patch.status["by"] = NAME
    patch.status["at"] = time.time()


@ctl.on.leading()
def lead(logger, **_):
    logger.info("%s leads from now on", NAME)


@ctl.on.standby()
def stand_by(logger, **_):
    logger.info("%s stands by from now on", NAME)
