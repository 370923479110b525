"""`ctl.handlers.kopf`: Kopf's helpers: login, posting, hierarchies, adapters of other libraries."""
