"""`ctl.controller.peering`: KopfPeering resources."""
