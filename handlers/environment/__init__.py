"""`ctl.handlers.environment`: what the parts of one running operator share and remember."""
