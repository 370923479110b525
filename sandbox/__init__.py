"""`ctl.sandbox`: an embedded Kubernetes API server, in process or as a command."""
