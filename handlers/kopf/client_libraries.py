"""The default configurations of client libraries, so that handlers reach the operator's server without any of their own.

Kopf logs in through the `kubernetes` package, which sets that package's process-wide configuration; its tutorial and many
operators create their clients without a configuration. So it is set here, from the same files as the operator's own. Nothing is
imported for it: the package is configured at the login if the operator's code has imported it, or when it does.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...client.config.loading import HOME_CONFIG, is_in_cluster
from ...runtime.imports import when_imported

logger = logging.getLogger(__name__)

SYNC, ASYNC = "kubernetes", "kubernetes_asyncio"


class _State:
    """The context to configure the libraries with, and the configurations that we have set: those of others are left alone."""

    def __init__(self) -> None:
        self.context: str | None = None
        self.ours: list[Any] = []


_state = _State()


async def introduce(context: str | None = None) -> None:
    """Configure the libraries from $KUBECONFIG, the pod or `~/.kube/config`, as the operator itself, with this context.

    A default configuration of the program is left alone. Errors are logged at DEBUG: the operator's own login reports them, or
    uses other credentials. Exec plugins may run, in a thread.
    """
    _state.context = context
    when_imported(SYNC, _set_up)
    if isinstance(sys.modules.get(SYNC), ModuleType):
        await asyncio.to_thread(_set_up)
    if isinstance(sys.modules.get(ASYNC), ModuleType):
        await _set_up_async()


def _files(context: str | None) -> str | None:
    """The kubeconfig files; None: the account of the pod. In the order of `load_access`."""
    listed = os.environ.get("KUBECONFIG", "").strip(os.pathsep + " ")
    if not listed and context is None and is_in_cluster():
        return None
    return listed or str(HOME_CONFIG.expanduser())


def _is_left_alone(library: Any) -> bool:
    known = getattr(library.client.Configuration, "_default", None)
    return known is not None and not any(known is one for one in _state.ours)


@contextmanager
def _noted(library: Any) -> Iterator[Any]:
    """A new configuration, which is the library's default after the block, unless that raises."""
    configuration = library.client.Configuration()
    try:
        yield configuration
    except Exception as exc:  # the library's own, of many kinds: our login reports what is wrong
        logger.debug("The package %r could not be set up: %r", library.__name__, exc)
        return
    library.client.Configuration.set_default(configuration)
    # The library keeps a copy.
    _state.ours.append(getattr(library.client.Configuration, "_default", None))
    logger.debug("The default configuration of the package %r is that of this operator.", library.__name__)


def _set_up() -> None:
    import kubernetes

    if _is_left_alone(kubernetes):
        return
    files = _files(_state.context)
    with _noted(kubernetes) as configuration:
        if files is None:
            kubernetes.config.load_incluster_config(configuration)
        else:
            kubernetes.config.load_kube_config(files, _state.context, configuration)


async def _set_up_async() -> None:
    import kubernetes_asyncio

    # It may have been imported in part, for a login.
    if not hasattr(kubernetes_asyncio, "config") or _is_left_alone(kubernetes_asyncio):
        return
    files = _files(_state.context)
    with _noted(kubernetes_asyncio) as configuration:
        if files is None:
            kubernetes_asyncio.config.load_incluster_config(configuration)
        else:
            await kubernetes_asyncio.config.load_kube_config(files, _state.context, configuration)
