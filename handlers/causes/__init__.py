"""`ctl.handlers.causes`: what happened to an object."""
