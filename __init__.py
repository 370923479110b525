"""A client-go-style controller toolkit for Python that runs Kopf operators unmodified.

Names are looked up when they are first used, so importing one sub-package loads no other. The decorators are in `ctl.on`;
what else is public stands in `__all__`, and the sub-packages (`ctl.client`, `ctl.informers`, `ctl.workqueue`,
`ctl.controller`, `ctl.sandbox`) have an interface of their own.
"""

from typing import TYPE_CHECKING, Any

from ._exports import resolve
from ._version import VERSION as __version__  # noqa: N811 - a constant by either name

if TYPE_CHECKING:
    from .cli.alias import install_as_kopf
    from .client.resources import Resource
    from .handlers.errors import (
        AdmissionError,
        ErrorsMode,
        HandlerRetriesError,
        HandlerTimeoutError,
        LoginError,
        PermanentError,
        TemporaryError,
    )
    from .handlers.loggers import LocalObjectLogger, ObjectLogger, configure
    from .runtime.logs import LogFormat, Logger

__all__ = [
    "AdmissionError",
    "ErrorsMode",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "LocalObjectLogger",
    "LogFormat",
    "Logger",
    "LoginError",
    "ObjectLogger",
    "PermanentError",
    "Resource",
    "TemporaryError",
    "__version__",
    "configure",
    "install_as_kopf",
]


def __getattr__(name: str) -> Any:
    value = resolve(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
