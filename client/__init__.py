"""`ctl.client`: the API's vocabulary (pure) and its wire."""
