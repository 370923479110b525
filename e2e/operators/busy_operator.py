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
    # There is always one that waits for the thread.
    settings.execution.max_workers = 1


@ctl.timer("kopfexamples", interval=0.01)
def call(**_):
    os.write(1, f"called {time.monotonic()}\n".encode())
    time.sleep(0.02)


@ctl.on.standby()
def stand_by(logger, **_):
    logger.info("%s stands by from now on", NAME)
