"""The order of handlers, chosen."""

import kopf
from recording import record

kopf.set_default_lifecycle(kopf.lifecycles.one_by_one)


@kopf.on.create("apples")
def first(retry, **kwargs):
    record("first", {**kwargs, "retry": retry})
    if retry < 1:
        raise kopf.TemporaryError("the others wait", delay=0.2)


@kopf.on.create("apples")
async def second(**kwargs):
    record("second", kwargs)

    def early(**kwargs):
        record("second/early", kwargs)

    def late(**kwargs):
        record("second/late", kwargs)

    def backwards(handlers, *, state, **kwargs):
        record("backwards", kwargs, ids=[handler.id for handler in handlers])
        return list(reversed(handlers))

    await kopf.execute(fns={"early": early, "late": late}, lifecycle=backwards)


@kopf.on.create("apples")
def third(**kwargs):
    record("third", kwargs)
