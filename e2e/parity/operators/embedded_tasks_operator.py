"""Runs as tasks that somebody else waits for."""

import asyncio
import os

import kopf
from recording import record


@kopf.on.create("apples")
async def created(**kwargs):
    record("created", kwargs)


@kopf.on.cleanup()
async def cleaned(**kwargs):
    record("cleaned", kwargs)


async def main():
    stop = asyncio.Future()
    tasks = await kopf.spawn_tasks(namespaces=[os.environ["NAMESPACE"]], standalone=True, stop_flag=stop)
    record("spawned", {}, are_tasks=all(isinstance(task, asyncio.Task) for task in tasks), some=bool(tasks))
    waiting = asyncio.create_task(kopf.run_tasks(tasks))
    while not os.path.exists(os.environ["RECORDING"] + ".stop"):
        await asyncio.sleep(0.05)
    stop.set_result("enough")
    await waiting
    record("ended", {})


if __name__ == "__main__":
    asyncio.run(main())
