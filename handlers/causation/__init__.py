"""`ctl.handlers.causation`: what happened."""
