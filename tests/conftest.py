"""Tests run in virtual time where they are marked so: see `ctl.testing.time`."""

pytest_plugins = ["ctl.testing.plugin"]
