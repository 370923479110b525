"""`ctl.controller.leader`: Lease-based leader election: gates, lease rules, the election and its thread."""
