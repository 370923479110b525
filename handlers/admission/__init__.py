"""`ctl.handlers.admission`: reviews of changes before they happen."""
