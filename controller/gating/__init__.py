"""`ctl.controller.gating`: may I act now: leadership and peering."""
