"""`ctl.handlers.daemons`: daemons and timers of one object."""
