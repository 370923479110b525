"""Whether an object belongs to a selection is decided here as the server would, as far as that can be."""

from ..client.objects import Object
from ..client.selectors import FieldSelector, LabelSelector
from .listwatch import Selection


class Scope:
    """The objects that a selection takes in.

    Field selectors are matched on the object's JSON, as servers do for custom resources; defaults that a server computes for
    fields of its built-in kinds are not known here. Shards are not known here.
    """

    def __init__(self, selection: Selection) -> None:
        """Raises `SelectorError` for selectors that are not in the API's syntax."""
        self._namespace = selection.namespace
        self._labels = LabelSelector.parse(selection.label_selector) if selection.label_selector else None
        self._fields = FieldSelector.parse(selection.field_selector) if selection.field_selector else None

    def covers(self, namespace: str | None) -> bool:
        """Whether objects of this namespace are looked at."""
        return self._namespace is None or self._namespace == namespace

    def holds(self, obj: Object) -> bool:
        """Whether the selection takes in an object of a covered namespace."""
        if self._labels is not None and not self._labels.matches(obj.metadata().labels):
            return False
        return self._fields is None or self._fields.matches(obj.body())
