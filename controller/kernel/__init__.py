"""`ctl.controller.kernel`: sources, workers and the outcome of a reconcile."""
