"""`ctl.client.config`: where the server is and how to get in: kubeconfig, pod, credentials, TLS."""
