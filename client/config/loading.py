"""Finds the access to a server: in kubeconfig files, or in the pod."""

import logging
import os
import threading
from pathlib import Path
from typing import Any

import yaml

from ..errors import AccessError, NoAccessError
from .access import TLS, Access, Constant, Credentials, address
from .credentials import AuthProvider, ExecPlugin, Plugin, TokenFile, basic, bearer
from .kubeconfig import Document, Kubeconfig, Selection

__all__ = ["Access", "load_access", "read_kubeconfig"]

logger = logging.getLogger(__name__)

HOME_CONFIG = Path("~/.kube/config")
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REFRESHING_PROVIDERS = frozenset({"oidc", "gcp"})


def load_access(kubeconfig: str | Path | None = None, context: str | None = None) -> Access:
    """Find the access, in controller-runtime's order.

    A given `kubeconfig` (one file, or several as in $KUBECONFIG), else $KUBECONFIG, else the service account of the pod
    unless a context is asked for, else `~/.kube/config`. Nothing is sent; exec plugins do not run yet. Reads small files
    on the caller's thread. Raises AccessError with one sentence on what is missing or broken.

    When the server refuses the credentials or cannot be reached, clients read a kubeconfig that was written anew since, and use the
    same context of it.
    """
    listed = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG", "")
    if listed.strip(os.pathsep + " "):
        source = "The given kubeconfig" if kubeconfig is not None else "$KUBECONFIG"
        return _Kubeconfig(_existing(listed, source), context).current
    if context is None and is_in_cluster():
        return incluster_access()
    home = HOME_CONFIG.expanduser()
    if not home.exists():
        raise NoAccessError(
            f"No way to a Kubernetes server was found: $KUBECONFIG is not set, {home} does not exist, and there is no "
            "service account mounted. Set KUBECONFIG to a file, or run in a pod."
        )
    return _Kubeconfig([home], context).current


def read_kubeconfig(paths: list[Path]) -> Kubeconfig:
    """Read and merge files. Raises AccessError for the first that cannot be read or is no kubeconfig."""
    return Kubeconfig.merge([Document(path, _parse(path)) for path in paths])


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


def _existing(listed: str, source: str) -> list[Path]:
    # Paths in them are relative to their folders, whatever the working directory becomes.
    paths = [Path(part).expanduser().absolute() for part in listed.split(os.pathsep) if part]
    existing = [path for path in paths if path.exists()]
    if not existing:
        names = ", ".join(str(path) for path in paths)
        raise AccessError(f"{source} names {names}, which does not exist. Check the path.")
    return existing


def _parse(path: Path) -> Any:
    try:
        with path.open(encoding="utf-8") as file:
            content = yaml.safe_load(file)
            return {} if content is None else content
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise AccessError(f"The kubeconfig {path} is broken{where}: expected YAML, but {problem}.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise AccessError(f"The kubeconfig {path} cannot be read: {reason}.") from error


class _Kubeconfig:
    """The loader of an access from files; the context is the one asked for, or the current one at the beginning."""

    def __init__(self, paths: list[Path], context: str | None) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._selection = read_kubeconfig(paths).select(context)
        self.current = self._access(self._selection, _credentials(self._selection, paths))

    def reload(self) -> Access:
        with self._lock:
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._take(read_kubeconfig(self._paths).select(self._selection.context))
                except AccessError as error:
                    logger.warning("The kubeconfig has changed, and cannot be used: %s", error)
            return self.current

    def _take(self, selection: Selection) -> None:
        if selection == self._selection:
            return
        credentials = self.current.credentials
        if selection.user != self._selection.user:
            credentials = _credentials(selection, self._paths)
        self._selection, self.current = selection, self._access(selection, credentials)
        logger.info("The kubeconfig has changed: requests go on by the %s as it is now.", selection.origin)

    def _access(self, selection: Selection, credentials: Credentials) -> Access:
        access = Access(
            server=address(selection.server, selection.tls),
            tls=selection.tls,
            credentials=credentials,
            default_namespace=selection.namespace,
            proxy=selection.proxy,
            compression=selection.compression,
            origin=selection.origin,
        )
        object.__setattr__(access, "loader", self)
        return access

    def _look(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _credentials(selection: Selection, paths: list[Path]) -> Credentials:
    """The credentials that client-go would send: a token (file first), a user with a password, or those of a plugin."""
    user, origin = selection.user, f"the {selection.origin}"
    if user.token_file is not None:
        return TokenFile(user.token_file, initial=user.token, headers=user.impersonation)
    if user.token is not None:
        return Constant((*bearer(user.token), *user.impersonation))
    if user.username is not None and user.password is not None:
        return Constant((*basic(user.username, user.password), *user.impersonation))
    if user.exec is not None and user.path is not None:
        where = f"the user {user.name!r} in {user.path} ({origin})"
        return ExecPlugin(Plugin.of(user.exec, where, user.path.parent), origin=origin, headers=user.impersonation)
    if user.auth_provider is not None:
        if user.auth_provider.get("name") in _REFRESHING_PROVIDERS:
            files = os.pathsep.join(str(path) for path in paths)
            return AuthProvider(files, selection.context, origin=origin, headers=user.impersonation)
        config = user.auth_provider.get("config") or {}
        if isinstance(config, dict) and config.get("access-token"):
            return Constant((*bearer(str(config["access-token"])), *user.impersonation))
        raise AccessError(
            f"The user {user.name!r} in {user.path} has the auth-provider {user.auth_provider.get('name')!r}, which is "
            "not supported: expected oidc, gcp, or an access-token. Use an exec plugin of its vendor."
        )
    return Constant(user.impersonation)
