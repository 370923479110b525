"""`ctl.handlers.indexing`: indices, the index barrier, standby indexing."""
