"""Sub-handlers are declared while their parent runs: into a registry of that one run, which a context variable carries.

Execution sets the variable around each call of a handler; the decorators `subhandler` and `register` find it there. Sync
handlers get it with the copied context of their thread.
"""

from contextvars import ContextVar

import msgspec

from ..causes.causes import ChangingCause
from ..causes.current import current_cause
from .families import deduplicated
from .filters import match
from .specs import ChangingSpec, Spec


class SubRegistry(msgspec.Struct, eq=False):
    """The sub-handlers that one run of a handler has declared so far, in that order."""

    parent: Spec
    specs: list[ChangingSpec] = msgspec.field(default_factory=list)

    def append(self, spec: ChangingSpec) -> None:
        """Take one more."""
        self.specs.append(spec)

    def changing(self, cause: ChangingCause) -> list[ChangingSpec]:
        """The sub-handlers whose filters the cause fulfils, each once, in the order of declaration."""
        return deduplicated(spec for spec in self.specs if match(spec, cause))


current_subregistry: ContextVar[SubRegistry] = ContextVar("current_subregistry")
"""Where sub-handlers are declared now; not set where no handler runs."""


def running_subregistry() -> SubRegistry:
    """The registry of the change handler that runs in this context.

    Raises LookupError where no handler runs at all, and TypeError in handlers of other kinds.
    """
    found = current_subregistry.get(None)
    if found is not None:
        return found
    refusal = LookupError if current_cause.get(None) is None else TypeError
    raise refusal(
        "Sub-handlers are only supported for resource-changing handlers. Sub-handlers are declared inside a running handler of create, update, delete, resume or field; none runs here. "
        "Move the declaration into the handler, or use a decorator of a resource."
    )
