"""Ready-made login functions: from the pod, from kubeconfig files, and from installed client libraries.

Each returns None where it finds no credentials, so that several can be declared together. The priorities are
Kopf's: the `kubernetes` client and kubeconfig files 10, the asynchronous client 15, pykube and the service account 20.
"""

import base64
import inspect
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ...client.config.loading import ACCOUNT, HOME_CONFIG, read_kubeconfig
from ...client.errors import AccessError
from ..errors import LoginError
from .connections import ConnectionInfo, KubeconfigInfo


def login_with_kubeconfig(*, settings: Any = None, **_: Any) -> ConnectionInfo | None:
    """Log in with the current context of $KUBECONFIG (several files are merged) or `~/.kube/config`; None without a file.

    Relative paths are those of the file. The impersonation (`as`) and the `tls-server-name` are kept, for which `ConnectionInfo`
    has no fields: a copy made field by field loses them. Exec plugins are not run: only the default login runs them.
    Raises LoginError for invalid files.
    """
    listed = os.environ.get("KUBECONFIG") or str(HOME_CONFIG)
    paths = [path for part in listed.split(os.pathsep) if part and (path := Path(part).expanduser()).exists()]
    if not paths:
        return None
    try:
        selection = read_kubeconfig(paths).select()
        token = selection.user.token
        if selection.user.token_file is not None:
            token = selection.user.token_file.read_text().strip()
    except (AccessError, OSError) as exc:
        raise LoginError(str(exc)) from exc
    provider, tls = (selection.user.auth_provider or {}).get("config") or {}, selection.tls
    kind: Callable[..., ConnectionInfo] = ConnectionInfo
    if selection.user.impersonation or tls.server_name:
        kind = partial(KubeconfigInfo, impersonation=selection.user.impersonation, tls_server_name=tls.server_name)
    return kind(
        server=selection.server,
        ca_path=_path(tls.ca_file, tls.ca_data),
        ca_data=_base64(tls.ca_data),
        insecure=tls.insecure or None,
        certificate_path=_path(tls.certificate_file, tls.certificate_data),
        certificate_data=_base64(tls.certificate_data),
        private_key_path=_path(tls.key_file, tls.key_data),
        private_key_data=_base64(tls.key_data),
        username=selection.user.username,
        password=selection.user.password,
        token=token or provider.get("access-token"),
        default_namespace=selection.namespace,
        proxy_url=selection.proxy,
        trust_env=_trust_env(settings),
        priority=10,
    )


def login_with_service_account(*, settings: Any = None, **_: Any) -> ConnectionInfo | None:
    """Log in with the service account that is mounted into the pod; None outside a pod."""
    token, namespace, ca = ACCOUNT / "token", ACCOUNT / "namespace", ACCOUNT / "ca.crt"
    if not token.is_file():
        return None
    return ConnectionInfo(
        server="https://kubernetes.default.svc",
        ca_path=ca if ca.is_file() else None,
        token=token.read_text().strip() or None,
        default_namespace=(namespace.read_text().strip() or None) if namespace.is_file() else None,
        trust_env=_trust_env(settings),
        priority=20,
    )


def login_via_client(*, logger: Any, settings: Any = None, **_: Any) -> ConnectionInfo | None:
    """Log in as the `kubernetes` package does; None when it is not installed. Raises LoginError when it finds no credentials.

    The package's own loaders, or those that a program or a test has put in their place, set its default configuration. It is
    used here, and by clients that handlers make without a configuration, as under Kopf. Proxies of the environment are left out:
    `settings.networking.trust_env` is for them.
    """
    try:
        import kubernetes.client
        import kubernetes.config
    except ImportError:
        return None
    try:
        kubernetes.config.load_incluster_config()
        logger.debug("Client is configured in cluster with service account.")
    except kubernetes.config.ConfigException:
        try:
            kubernetes.config.load_kube_config()
            logger.debug("Client is configured via kubeconfig file.")
        except kubernetes.config.ConfigException as exc:
            raise LoginError("Cannot authenticate the client library neither in-cluster, nor via kubeconfig.") from exc
    configuration = kubernetes.client.Configuration.get_default_copy()
    # Its key depends on the library's version.
    header = configuration.get_api_key_with_prefix("BearerToken") or configuration.get_api_key_with_prefix(
        "authorization"
    )
    return _from_client(configuration, header, settings, priority=10)


async def login_via_async_client(*, logger: Any, settings: Any = None, **_: Any) -> ConnectionInfo | None:
    """Log in as `kubernetes_asyncio` does, in the same way. Raises LoginError when it finds no credentials."""
    try:
        import kubernetes_asyncio.client
        import kubernetes_asyncio.config
    except ImportError:
        return None
    try:
        kubernetes_asyncio.config.load_incluster_config()
        logger.debug("Async client is configured in cluster with service account.")
    except kubernetes_asyncio.config.ConfigException:
        try:
            await kubernetes_asyncio.config.load_kube_config()
            logger.debug("Async client is configured via kubeconfig file.")
        except kubernetes_asyncio.config.ConfigException as exc:
            raise LoginError(
                "Cannot authenticate the async client library neither in-cluster, nor via kubeconfig."
            ) from exc
    configuration = kubernetes_asyncio.client.Configuration.get_default_copy()
    # In later versions of the library it is a coroutine, which may refresh the token.
    header: Any = configuration.get_api_key_with_prefix("BearerToken")
    header = await header if inspect.isawaitable(header) else header
    return _from_client(configuration, header, settings, priority=15, proxy=configuration.proxy)


def login_via_pykube(*, logger: Any, settings: Any = None, **_: Any) -> ConnectionInfo | None:
    """Log in as pykube-ng does; None when it is not installed. Raises LoginError when it finds no credentials."""
    try:
        import pykube
    except ImportError:
        return None
    try:
        found = pykube.KubeConfig.from_service_account()
        logger.debug("Pykube is configured in cluster with service account.")
    except FileNotFoundError:
        try:
            found = pykube.KubeConfig.from_file()
            logger.debug("Pykube is configured via kubeconfig file.")
        except (pykube.PyKubeError, FileNotFoundError) as exc:
            raise LoginError("Cannot authenticate pykube neither in-cluster, nor via kubeconfig.") from exc
    user, cluster, provided = found.user, found.cluster, None
    if user.get("auth-provider"):
        # The token is known after a request, whether or not that succeeds.
        pykube.HTTPClient(found).get(version="", base="/")
        provided = (user["auth-provider"].get("config") or {}).get("access-token")
    ca, certificate, key = (
        cluster.get("certificate-authority"),
        user.get("client-certificate"),
        user.get("client-key"),
    )
    return ConnectionInfo(
        server=cluster.get("server"),
        ca_path=ca.filename() if ca else None,
        insecure=cluster.get("insecure-skip-tls-verify"),
        username=user.get("username"),
        password=user.get("password"),
        token=user.get("token") or provided,
        certificate_path=certificate.filename() if certificate else None,
        private_key_path=key.filename() if key else None,
        default_namespace=found.namespace,
        proxy_url=cluster.get("proxy-url"),
        trust_env=_trust_env(settings),
        priority=20,
    )


def _path(path: Path | None, data: bytes | None) -> str | None:
    return None if path is None or data else str(path)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _from_client(
    configuration: Any, header: str | None, settings: Any, *, priority: int, proxy: str | None = None
) -> ConnectionInfo:
    # The libraries keep either a header value or a bare token.
    scheme, _, token = (header or "").partition(" ")
    return ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme if token else None,
        token=token or scheme or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=proxy,
        trust_env=_trust_env(settings),
        priority=priority,
    )


def _trust_env(settings: Any) -> bool:
    return bool(settings is not None and settings.networking.trust_env)
