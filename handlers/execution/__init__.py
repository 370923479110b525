"""`ctl.handlers.execution`: carry it out."""
