"""The published operators, by name."""

from published.scripts import baler, citadel, dask, devservers, fastflow, pass_operator

_ALL = (baler, citadel, dask, devservers, fastflow, pass_operator)
OPERATORS = {one.OPERATOR.name: one.OPERATOR for one in _ALL}
