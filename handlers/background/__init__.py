"""`ctl.handlers.background`: long-running and periodic work of one object."""
