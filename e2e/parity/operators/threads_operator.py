"""Functions in threads: their names, their context, how many run at once."""

import asyncio
import contextvars
import threading
import time

import kopf
from recording import record

said = contextvars.ContextVar("said", default="nothing")
running = 0
most = 0
lock = threading.Lock()


@kopf.on.startup()
def configure(settings, **_):
    settings.execution.max_workers = 2
    try:
        settings.execution.max_workers = 0
    except ValueError:
        record("refused", {})


@kopf.on.create("apples", labels={"counted": "yes"})
def counted(body, **kwargs):
    global running, most
    with lock:
        running += 1
        most = max(most, running)
    time.sleep(0.2)
    with lock:
        running -= 1
    child = {}
    kopf.adopt(child)
    record("counted", {"body": body}, in_main=threading.current_thread() is threading.main_thread(), child=child)


@kopf.on.create("apples", labels={"asked": "yes"})
async def asked(body, **kwargs):
    said.set("by a coroutine")
    record(
        "asked", {"body": body}, most=most, said=await asyncio.to_thread(said.get), main=threading.current_thread().name
    )
