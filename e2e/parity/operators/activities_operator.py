"""What is done once: at the start, at the end, for the log-in and for who asks how it goes."""

import os

import kopf
from recording import record


@kopf.on.startup()
async def first(settings, **kwargs):
    record("first", {**kwargs, "settings": settings})
    settings.posting.enabled = False
    settings.execution.max_workers = 3


@kopf.on.startup(id="named", param="p", retries=3, backoff=0.1)
def second(retry, **kwargs):
    record("second", {**kwargs, "retry": retry})
    if not retry:
        raise ValueError("the second time is better")


@kopf.on.login(retries=1)
def login(**kwargs):
    record("login", kwargs)
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.login(errors=kopf.ErrorsMode.IGNORED)
async def no_login(**kwargs):
    record("no_login", kwargs)


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)
    kopf.info(kwargs["body"], reason="Never", message="posted")


@kopf.on.cleanup(retries=2, backoff=0.1)
async def cleaned(retry, **kwargs):
    record("cleaned", {**kwargs, "retry": retry}, pid=os.getpid() > 0)
    if not retry:
        raise kopf.TemporaryError("once more", delay=0.1)


@kopf.on.cleanup()
def cleaned_too(**kwargs):
    record("cleaned_too", kwargs)
