"""Handlers that have handlers: by decorators, by calls, at once and at the end."""

import kopf
from recording import record

# Kopf calls a parent again for each of its children otherwise.
kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)


@kopf.on.create("apples", labels={"parent": "decorated"})
@kopf.on.update("apples", labels={"parent": "decorated"})
def decorated(spec, **kwargs):
    record("decorated", kwargs)
    for item in spec.get("items", []):

        @kopf.subhandler(id=item, param=item)
        def child(retry, **kwargs):
            record(f"decorated/{kwargs['param']}", {**kwargs, "retry": retry})
            if kwargs["param"] == "b" and not retry:
                raise kopf.TemporaryError("b needs two", delay=0.1)
            return None if kwargs["param"] == "a" else {"item": kwargs["param"]}

    return "parent"


@kopf.on.create("apples", labels={"parent": "registered"})
async def registered(**kwargs):
    record("registered", kwargs)

    def first(**kwargs):
        record("registered/first", kwargs)

    async def second(**kwargs):
        record("registered/second", kwargs)

        @kopf.subhandler(errors=kopf.ErrorsMode.PERMANENT)
        async def deeper(**kwargs):
            record("registered/second/deeper", kwargs)
            raise ValueError("deep down")

    kopf.register(fn=first, id="first")
    kopf.register(second, id="second")


@kopf.on.create("apples", labels={"parent": "executed"})
async def executed(retry, **kwargs):
    record("executed", {**kwargs, "retry": retry})

    def one(**kwargs):
        record("executed/one", kwargs)

    def two(**kwargs):
        record("executed/two", kwargs)

    await kopf.execute(fns={"one": one, "two": two})
    record("executed-after", kwargs)


@kopf.on.create("apples", labels={"parent": "listed"})
async def listed(**kwargs):
    record("listed", kwargs)

    def three(**kwargs):
        record("listed/three", kwargs)

    await kopf.execute(fns=[three])


@kopf.on.update("apples", field="spec.number", labels={"parent": "numbered"})
def numbered(**kwargs):
    record("numbered", kwargs)

    @kopf.subhandler(field="spec.number", new=7)
    def seven(**kwargs):
        record("numbered/seven", kwargs)

    @kopf.subhandler(labels={"never": "there"})
    def never(**kwargs):
        record("numbered/never", kwargs)
