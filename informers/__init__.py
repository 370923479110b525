"""`ctl.informers`: an eventually consistent local copy of a resource."""
