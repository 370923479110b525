"""`ctl.client.wire`: requests and connections."""
