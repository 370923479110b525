"""`ctl.handlers.cycle`: one key's attempt: raw events and the cycle of change handlers."""
