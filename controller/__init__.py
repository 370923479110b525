"""`ctl.controller`: from changes to attempts."""
