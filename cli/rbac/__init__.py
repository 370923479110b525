"""`ctl rbac`: the least rights that an operator needs, found in its declarations, its code and the cluster."""
