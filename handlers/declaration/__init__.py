"""`ctl.handlers.declaration`: decorators, their options, filters and selectors, and the registry of handlers."""
