"""`ctl.handlers.patching`: what a round wants, arranged into requests."""
