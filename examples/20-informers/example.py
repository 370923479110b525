"""An informer and a workqueue without handlers: each ConfigMap gets an annotation that says how many entries it has."""

import asyncio

from ctl.client.access import load_access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.informers.factory import Factory
from ctl.workqueue import RateLimitingQueue

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
NOTE = "example.com/entries"


async def follow(informer, queue):
    async for batch in informer.subscribe(name="entries"):
        for delta in batch:
            queue.add(delta.object.key)


async def work(client, informer, queue):
    while True:
        key = await queue.get()
        try:
            obj = informer.store.get(key)  # our own writes are seen here at once
            count = str(len((obj.body().get("data") or {}) if obj else ()))
            if obj and (obj.metadata().annotations or {}).get(NOTE) != count:
                patch = {"metadata": {"uid": obj.uid, "annotations": {NOTE: count}}}
                informer.overlay(await client.patch(CONFIGMAPS, key.name, key.namespace, patch))
            queue.forget(key)
        except Exception as error:
            print(f"{key} will be tried again: {error}")
            queue.add_rate_limited(key)
        finally:
            queue.done(key)


async def main():
    async with Client(load_access()) as client:
        factory, queue = Factory(client), RateLimitingQueue("entries")
        informer = factory.informer(CONFIGMAPS)
        await asyncio.gather(follow(informer, queue), *(work(client, informer, queue) for _ in range(4)))


if __name__ == "__main__":
    asyncio.run(main())
