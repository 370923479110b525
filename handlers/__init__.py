"""`ctl.handlers`: the user's language."""
