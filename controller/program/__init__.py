"""`ctl.controller.program`: the manager and the program that it runs."""
