"""`ctl.handlers.running`: the operator: options, survey of the cluster, wiring into the program."""
