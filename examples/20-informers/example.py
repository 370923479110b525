"""An informer and a workqueue without handlers: each ConfigMap gets an annotation that says how many entries it has."""

import asyncio

import ctl
from ctl.workqueue import RateLimitingQueue

CONFIGMAPS, NOTE = ctl.Resource("", "v1", "configmaps", namespaced=True), "example.com/entries"


async def follow(informer, queue):
    async for batch in informer.subscribe(name="entries"):
        for delta in batch:
            queue.add(delta.object.key)


async def work(client, informer, queue):
    while key := await queue.get():
        try:
            if obj := informer.store.get(key):  # includes our own writes at once
                count = str(len(obj.body().get("data") or {}))
                if (obj.metadata().annotations or {}).get(NOTE) != count:
                    patch = {"metadata": {"uid": obj.uid, "annotations": {NOTE: count}}}
                    informer.add_own_write(await client.patch(CONFIGMAPS, key.name, key.namespace, patch))
            queue.forget(key)
        except (ctl.APIError, ctl.RequestError):
            queue.add_rate_limited(key)
        queue.done(key)


async def main():
    async with ctl.Client(ctl.load_access()) as client:
        informer, queue = ctl.SharedInformerFactory(client).informer(CONFIGMAPS), RateLimitingQueue("entries")
        await asyncio.gather(follow(informer, queue), *(work(client, informer, queue) for _ in range(4)))


if __name__ == "__main__":
    asyncio.run(main())
