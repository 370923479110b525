"""The cause that is being handled now is kept in a context variable, where helpers called by handlers find it."""

from contextvars import ContextVar

from .causes import Cause

current_cause: ContextVar[Cause] = ContextVar("current_cause")
"""Set while user code runs for a cause: handlers of all kinds, sync ones in threads too (their context is copied)."""
