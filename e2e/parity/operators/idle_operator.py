"""Timers that wait until nothing changes."""

import kopf
from recording import record


@kopf.on.create("apples")
@kopf.on.update("apples")
def changed(**kwargs):
    record("changed", kwargs)


@kopf.timer("apples", idle=1.0)
def rested(memo, spec, **kwargs):
    record("rested", {**kwargs, "spec": spec})


@kopf.timer("apples", idle=0.5, interval=100)
def seldom(spec, **kwargs):
    record("seldom", {**kwargs, "spec": spec})
