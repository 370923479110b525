"""Translate the operator's settings into those of the client and of the informers."""

from ...client.settings import ClientSettings
from ...informers.settings import InformerSettings
from ..settings import OperatorSettings


def informer_settings(settings: OperatorSettings) -> InformerSettings:
    """How resources are listed and watched."""
    watching, known = settings.watching, InformerSettings()
    timeout = watching.server_timeout
    return InformerSettings(
        page_size=watching.chunk_size or known.page_size,
        watch_timeouts=known.watch_timeouts if timeout is None else (timeout, timeout),
        silence_limit=watching.inactivity_timeout,
        stream_limit=watching.client_timeout,
        stream_pause=watching.reconnect_backoff,
    )


def client_settings(settings: OperatorSettings) -> ClientSettings:
    """How requests are made."""
    networking = settings.networking
    return ClientSettings(
        request_timeout=networking.request_timeout,
        connect_timeout=networking.connect_timeout,
        watch_connect_timeout=settings.watching.connect_timeout,
        error_backoffs=networking.error_backoffs,
        enforce_retry_after=networking.enforce_retry_after,
        largest_answer=networking.largest_answer,
        largest_event=networking.largest_event,
        trust_env=networking.trust_env,
    )
