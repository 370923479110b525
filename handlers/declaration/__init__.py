"""`ctl.handlers.declaration`: who wants to know."""
