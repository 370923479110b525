"""`ctl.workqueue`: order, fairness and time for keys; knows nothing of Kubernetes."""
