"""`ctl.controller`: from changes to attempts.

The package can be called: `ctl.controller("kopfexamples.kopf.dev").owns("configmaps").reconciles(function)` puts a controller together.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .building.builder import Builder


class _Sentence(ModuleType):
    def __call__(self, resource: str) -> "Builder":
        """Begin the sentence with the resource whose objects are reconciled; see `builder`."""
        from .building.builder import controller

        return controller(resource)


sys.modules[__name__].__class__ = _Sentence
