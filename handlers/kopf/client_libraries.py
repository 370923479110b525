"""The client libraries that handlers use talk to the operator's server without being told where it is.

Kopf logs in through the `kubernetes` package and leaves the process-wide configuration of that package behind; its tutorial and
many operators create their clients without any. So the configuration is set here as well, by whatever the operator itself
goes by. Nothing is imported for it: the package is set up at the login if the operator's code has imported it, else when it does.
"""

import asyncio
import logging
import os
import sys
from types import ModuleType
from typing import Any

from ...client.config.loading import HOME_CONFIG, is_in_cluster
from ...runtime.imports import when_imported

logger = logging.getLogger(__name__)

SYNC, ASYNC = "kubernetes", "kubernetes_asyncio"


class _Wish:
    """What the libraries are to be set up with, and which configurations are ours: those of others are left alone."""

    def __init__(self) -> None:
        self.context: str | None = None
        self.ours: list[Any] = []


_wish = _Wish()


async def introduce(context: str | None = None) -> None:
    """Set up the libraries by $KUBECONFIG, the pod or `~/.kube/config`, as the operator itself is; with this context.

    A configuration that the program has made the default is left alone. What cannot be read is left out with a line for
    debugging: the operator's own login says what is wrong, or has other means. Exec plugins may run, in a thread.
    """
    _wish.context = context
    when_imported(SYNC, _set_up)
    if isinstance(sys.modules.get(SYNC), ModuleType):
        await asyncio.to_thread(_set_up)
    if isinstance(sys.modules.get(ASYNC), ModuleType):
        await _set_up_async()


def _files(context: str | None) -> str | None:
    """The kubeconfig files to go by; None: the account of the pod. The order is that of `load_access`."""
    listed = os.environ.get("KUBECONFIG", "").strip(os.pathsep + " ")
    if not listed and context is None and is_in_cluster():
        return None
    return listed or str(HOME_CONFIG.expanduser())


def _is_left_alone(library: Any) -> bool:
    known = getattr(library.client.Configuration, "_default", None)
    return known is not None and not any(known is one for one in _wish.ours)


def _note(library: Any, configuration: Any) -> None:
    library.client.Configuration.set_default(configuration)
    # What is the default is a copy.
    _wish.ours.append(getattr(library.client.Configuration, "_default", None))
    logger.debug("The default configuration of the package %r is that of this operator.", library.__name__)


def _set_up() -> None:
    import kubernetes

    if _is_left_alone(kubernetes):
        return
    configuration, files = kubernetes.client.Configuration(), _files(_wish.context)
    try:
        if files is None:
            kubernetes.config.load_incluster_config(configuration)
        else:
            kubernetes.config.load_kube_config(files, _wish.context, configuration)
    except Exception as exc:  # the library's own, of many sorts: what is broken is told by our login
        logger.debug("The package %r could not be set up: %r", SYNC, exc)
        return
    _note(kubernetes, configuration)


async def _set_up_async() -> None:
    import kubernetes_asyncio

    # Ours may have been imported in parts, for a login.
    if not hasattr(kubernetes_asyncio, "config") or _is_left_alone(kubernetes_asyncio):
        return
    configuration, files = kubernetes_asyncio.client.Configuration(), _files(_wish.context)
    try:
        if files is None:
            kubernetes_asyncio.config.load_incluster_config(configuration)
        else:
            await kubernetes_asyncio.config.load_kube_config(files, _wish.context, configuration)
    except Exception as exc:
        logger.debug("The package %r could not be set up: %r", ASYNC, exc)
        return
    _note(kubernetes_asyncio, configuration)
