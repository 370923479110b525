"""Runs as a coroutine beside others, with a registry and settings of its own; two of them."""

import asyncio
import os

import kopf
from recording import record

registry = kopf.OperatorRegistry()
other = kopf.OperatorRegistry()
settings = kopf.OperatorSettings()
settings.persistence.finalizer = "parity.ctl.test/embedded"
settings.posting.enabled = False


@kopf.on.login(registry=registry)
@kopf.on.login(registry=other)
def login(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.create("apples", registry=registry)
async def created(**kwargs):
    record("created", kwargs)


@kopf.on.delete("apples", registry=registry)
async def deleted(**kwargs):
    record("deleted", kwargs)


@kopf.on.create("pears", registry=other)
async def other_created(**kwargs):
    record("other_created", kwargs)


@kopf.on.create("apples")
def never(**kwargs):
    record("never", kwargs)


class Remembered:
    def __init__(self):
        self.copies = 0

    def __copy__(self):
        copied = Remembered()
        copied.copies = self.copies + 1
        return copied

    def __repr__(self):
        return f"Remembered({self.copies})"


async def main():
    ready, stop = asyncio.Event(), asyncio.Event()
    namespaces = [os.environ["NAMESPACE"]]
    first = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings,
            memo=Remembered(),
            namespaces=namespaces,
            standalone=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    await ready.wait()
    record("ready", {})
    second = asyncio.create_task(kopf.operator(registry=other, namespaces=namespaces, standalone=True, stop_flag=stop))
    while not os.path.exists(os.environ["RECORDING"] + ".stop"):
        await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(first, second)
    record("ended", {})


if __name__ == "__main__":
    kopf.configure(verbose=True)
    asyncio.run(main())
