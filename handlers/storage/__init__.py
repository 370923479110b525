"""`ctl.handlers.storage`: what is remembered on the object."""
