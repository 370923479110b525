import time

import ctl


@ctl.on.startup()
def configure(settings, **_):
    settings.leadership.lease_duration, settings.leadership.renew_deadline, settings.leadership.retry_period = 3, 2, 0.5
    settings.leadership.identity = "stuck"


@ctl.on.create("kopfexamples")
def stick(name, **_):
    print("sticking to", name, flush=True)
    time.sleep(600)
