import asyncio
import hashlib
import json
import os
import time
import zlib

import ctl

RUN = int(os.environ["RUN"])
LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
KIND = "kopfexamples"


def note(id, uid, name, reason, body, old=None, new=None, **_):
    told = json.dumps([old, new], sort_keys=True, default=dict)
    line = {
        "run": RUN,
        "at": time.time(),
        "id": id,
        "uid": uid,
        "name": name,
        "reason": str(reason),
        "field": wish(new) or body["spec"]["field"],
        "told": hashlib.sha256(told.encode()).hexdigest()[:12],
    }
    # One write for each line, which outlives the process; a kill may cut it in two, and the next one is not to be joined to it.
    os.write(LOG, f"\n{json.dumps(line)}\n".encode())


def wish(new):
    return new if isinstance(new, str) or not new else new["spec"]["field"]


def luck(*of):
    return zlib.crc32(repr((os.environ["SEED"], *of)).encode()) / 2**32


def changed(id):
    def decorate(fn):
        return ctl.on.create(KIND, id=id)(ctl.on.update(KIND, id=id)(fn))

    return decorate


@ctl.on.create(KIND, id="born")
async def born(**kwargs):
    note("born", **kwargs)


@changed("first")
async def first(new, **kwargs):
    note("first", new=new, **kwargs)
    return {"field": wish(new)}


@changed("slow")
async def slow(uid, new, **kwargs):
    await asyncio.sleep(luck("slow", uid, wish(new)) * 2)
    note("slow", uid=uid, new=new, **kwargs)


@changed("thread")
def thread(new, **kwargs):
    time.sleep(0.01)
    note("thread", new=new, **kwargs)
    return wish(new)


@changed("flaky")
async def flaky(uid, new, retry, **kwargs):
    if luck("flaky", uid, wish(new), retry) < 0.4:
        raise ctl.TemporaryError("not yet", delay=luck("delay", uid, retry))
    note("flaky", uid=uid, new=new, **kwargs)


@changed("parent")
async def parent(**_):
    for item in ("a", "b"):

        @ctl.subhandler(id=item)
        async def child(uid, new, retry, item=item, **kwargs):
            await asyncio.sleep(luck(item, uid, wish(new)) / 2)
            if not retry and luck("child", uid, item, wish(new)) < 0.3:
                raise ctl.TemporaryError("not yet", delay=0.5)
            note(f"parent/{item}", uid=uid, new=new, **kwargs)


@changed("fns")
async def fns(new, patch, **kwargs):
    def add(body):
        trail = body.setdefault("status", {}).setdefault("trail", [])
        if wish(new) not in trail:
            trail.append(wish(new))

    patch.fns.append(add)
    note("fns", new=new, **kwargs)


@ctl.on.field(KIND, field="spec.field", id="field")
async def field(new, patch, **kwargs):
    patch.status["last"] = new
    note("field/spec.field", new=new, **kwargs)


@ctl.on.resume(KIND, id="resumed")
async def resumed(**kwargs):
    note("resumed", **kwargs)


@ctl.on.delete(KIND, id="gone")
async def gone(uid, retry, **kwargs):
    if not retry and luck("gone", uid) < 0.3:
        raise ctl.TemporaryError("not yet", delay=0.3)
    await asyncio.sleep(luck("going", uid) * 1.5)
    note("gone", uid=uid, **kwargs)


@ctl.on.delete(KIND, id="goner")
async def goner(**kwargs):
    note("goner", **kwargs)
