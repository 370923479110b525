"""Runs itself, by one call, in the main thread."""

import os
import threading

import kopf
from recording import record

stop = threading.Event()


@kopf.on.startup()
def started(**kwargs):
    record("started", kwargs)


@kopf.on.create("apples")
def created(name, **kwargs):
    record("created", {**kwargs, "name": name})
    if name == "last":
        stop.set()


@kopf.on.cleanup()
def cleaned(**kwargs):
    record("cleaned", kwargs)


if __name__ == "__main__":
    kopf.configure(verbose=True)
    kopf.run(standalone=True, namespaces=[os.environ["NAMESPACE"]], stop_flag=stop, memo=kopf.Memo(given=True))
    record("ended", {})
