"""`ctl.sandbox` is an embedded Kubernetes API server, in process or as a command.

It speaks to real clients over real sockets and imports nothing else of this package.
"""

from .faults import Faults, LoggedRequest, Match, RequestLog, Rule
from .rights import User
from .server import Sandbox, SandboxSettings
from .status import Refused

__all__ = ["Faults", "LoggedRequest", "Match", "Refused", "RequestLog", "Rule", "Sandbox", "SandboxSettings", "User"]
