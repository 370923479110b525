"""`ctl.controller.events`: Kubernetes Event objects."""
