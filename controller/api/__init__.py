"""`ctl.controller.api`: reads and writes of objects for controllers."""
