"""`ctl.runtime`: what any long-running process needs, knowing nothing of Kubernetes."""
