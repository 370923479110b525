"""`ctl.controller.building`: from a builder's words to a running controller."""
