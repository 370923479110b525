"""What pages say about informers, leadership and the program, in the same words wherever they are served."""

import platform
from collections.abc import Iterator

from ..._version import VERSION
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...informers.reflector_state import Phase
from ...runtime.metrics import MetricFamily, Sample
from ..leader.leadership import Leadership
from .pages import Condition

BUILD = MetricFamily("ctl_build_info", "Always 1; the labels say what runs.", "gauge", ("version", "python"))
READY = MetricFamily("ctl_ready", "1 when the start-up is finished.", "gauge")

STALE = 90.0
"""After how many seconds of silence a stream that once worked makes a program not ready."""


def without_lists(factory: SharedInformerFactory) -> list[str]:
    """The informers whose first lists are still to come. One that is parked waits for people and is not waited for."""
    return [
        told(informer)
        for informer in factory.informers
        if not informer.has_synced and informer.state.phase is not Phase.PARKED
    ]


def of_informers(factory: SharedInformerFactory, limit: float = STALE) -> dict[str, Condition]:
    """A condition for each informer; one that is silent for longer than the limit is not ok."""
    found: dict[str, Condition] = {}
    for informer in factory.informers:
        state = informer.state
        stale = state.is_stale(limit)
        text = f"{state}, {len(informer.store)} objects" + (f"; silent for more than {limit:g} s" if stale else "")
        found[f"informer {told(informer)}"] = Condition(ok=not stale, text=text)
    return found


def of_leadership(leadership: Leadership | None) -> Condition:
    """A standby is as ready as a leader: it could act at once."""
    if leadership is None:
        return Condition(ok=True, text="no election")
    if leadership.alone is not None:
        return Condition(
            ok=True, text=f"acting without an election, as every replica does, until it is allowed: {leadership.alone}"
        )
    if leadership.is_open:
        return Condition(ok=True, text=f"leading, for {leadership.left():.1f} s without another renewal")
    return Condition(ok=True, text=f"standby, the leader is {leadership.holder or 'nobody'}")


def told(informer: Informer) -> str:
    """An informer's resource and selection, for people."""
    return f"{informer.resource!r} {informer.selection}".rstrip()


def of_program(startup: Condition) -> Iterator[Sample]:
    """What runs, and whether its start-up is finished."""
    yield Sample(BUILD, (VERSION, platform.python_version()), 1)
    yield Sample(READY, (), int(startup.ok))
