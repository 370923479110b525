"""`ctl.controller.http`: the HTTP port: health, metrics, diagnostics."""
