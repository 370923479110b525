"""`ctl.cli`: the `ctl` command."""
