"""Ports for servers that tests start later than they choose where, and ports on which nobody listens."""

import random
import socket

RANGE = (12_000, 30_000)
"""Below the ephemeral ports of Linux (32768) and other systems (49152): systems give them to nobody who does not ask for them."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody uses. Out of the ephemeral ones, a neighbour would get it sooner or later meanwhile."""
    while True:
        port = random.SystemRandom().randrange(*RANGE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
