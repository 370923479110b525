import asyncio
import contextlib
import sys

import ctl

registry = ctl.OperatorRegistry()


@ctl.on.create("kopfexamples", registry=registry)
async def create_fn(name, memo, **_):
    memo.names.put_nowait(name)


async def report(names):
    while True:
        print(f"{await names.get()} was created", flush=True)


async def main(namespace):
    names, ready, stop = asyncio.Queue(), asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(report(names))
    operator = asyncio.create_task(
        ctl.operator(
            registry=registry,
            namespaces=[namespace],
            memo=ctl.Memo(names=names),
            ready_flag=ready,
            stop_flag=stop,
            standalone=True,
        )
    )
    await ready.wait()
    print("the operator is ready", flush=True)
    try:
        await operator
    finally:
        stop.set()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    print("the program goes on without it", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "default"))
