"""What the charts' tests install: an operator that uses each right that it is granted."""

import os
import time

import ctl

VERSION = os.environ.get("VERSION", "1")


@ctl.on.startup()
def configure(settings, **_):
    settings.leadership.lease_duration = int(os.environ.get("LEASE", "15"))


def say(text):
    # In one piece, since the log is written by other threads.
    print(f"{time.time():.3f} {VERSION} {text}\n", end="", flush=True)


@ctl.on.create("kopfexamples")
def create_fn(body, name, **_):
    say(f"created {name}")
    ctl.info(body, reason="Handled", message="As it should be.")
    return {"version": VERSION}


@ctl.on.update("kopfexamples", field="spec")
def update_fn(body, name, new, **_):
    say(f"updated {name} {new}")
    ctl.info(body, reason="Handled", message="As it should be.")


@ctl.on.field("kopfexamples", field="spec.block")
async def block(new, **_):
    time.sleep(new or 0)  # noqa: ASYNC251


@ctl.on.field("kopfexamples", field="spec.fail", backoff=0.05)
async def fail(new, **_):
    if new == "for good":
        raise ctl.PermanentError("as it was asked to")
    if new == "again":
        raise ctl.TemporaryError("as it was asked to", delay=0.05)


@ctl.timer("kopfexamples", interval=5)
async def tick(**_): ...


@ctl.on.create("lateones.ctl.test")
def late(name, **_):
    say(f"late {name}")
