"""The access of a pod: its service account as Kubernetes mounts it."""

import os
from pathlib import Path

from ..errors import AccessError
from .credentials import TokenFile
from .endpoint import TLS, Access

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(account: Path = ACCOUNT) -> bool:
    """Whether this process has a service account mounted."""
    return (account / "token").is_file()


def incluster_access(account: Path = ACCOUNT) -> Access:
    """The pod's own access; the token is re-read as it rotates.

    The address is that of KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which Kubernetes sets in each container,
    else the service's name in the cluster's DNS. Raises AccessError outside of a pod or without a mounted account.
    """
    if not is_in_cluster(account):
        raise AccessError(
            f"There is no service account in {account}: expected a file `token`. Either this is no pod, or its "
            "automountServiceAccountToken is false."
        )
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = account / "namespace"
    ca = account / "ca.crt"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=TLS(ca_file=ca if ca.is_file() else None),
        credentials=TokenFile(account / "token"),
        default_namespace=namespace.read_text().strip() or None if namespace.is_file() else None,
        origin=f"the service account in {account}",
    )
