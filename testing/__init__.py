"""`ctl.testing`: the user's test kit."""
