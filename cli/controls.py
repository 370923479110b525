"""What a program that invokes the command may hand to it: Kopf's `CLIControls`, given as click's `obj`."""

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass
class CLIControls:
    """The parts of an operator that its invoker keeps a hand on. None leaves the choice to the command."""

    ready_flag: Any = None
    """Raised when the operator has started: a future or an event, of asyncio or of threads."""
    stop_flag: Any = None
    """The operator stops when it is raised: as `ready_flag`."""
    vault: Any = None
    """Refused: credentials come from login handlers, from a kubeconfig or from the pod."""
    registry: Any = None
    """The handlers; files that the command loads register theirs in the default registry all the same."""
    settings: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    """The loop to run in. It stays open; a loop that the command makes itself is closed."""
