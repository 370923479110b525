import os
import time

import ctl


def say(line):
    """Print a line from one of several threads: in one piece, which print() does not promise."""
    os.write(1, f"{line}\n".encode())


@ctl.on.startup()
def configure(settings, **_):
    lease = int(os.environ["LEASE"])
    settings.leadership.lease_duration, settings.leadership.renew_deadline = lease, lease * 2 / 3
    settings.leadership.retry_period = 0.5
    settings.leadership.identity = "stuck"


@ctl.on.create("kopfexamples", when=lambda **_: os.environ.get("STUCK") != "loop")
def stick(name, **_):
    say(f"sticking to {name}")
    time.sleep(600)


@ctl.on.create("kopfexamples", when=lambda name, **_: os.environ.get("STUCK") == "loop" and name == "n0")
async def block(name, **_):
    say(f"blocking the loop for {name}")
    time.sleep(600)  # noqa: ASYNC251 - that is the point
