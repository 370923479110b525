import base64
import os
from pathlib import Path

import pytest

from ctl.client.config.access import Access, Constant
from ctl.client.config.credentials import AuthProvider, ExecPlugin, TokenFile, basic, bearer
from ctl.client.config.loading import incluster_access, load_access
from ctl.client.errors import AccessError
from ctl.client.rest import Client

from .wireserver import PODS, QUICK

FULL = """
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: one
  cluster: {server: "https://one:6443/", certificate-authority: ca.pem, tls-server-name: kubernetes, proxy-url: "http://p:3128"}
- name: two
  cluster: {server: "https://two", certificate-authority-data: QUJD, disable-compression: true}
users:
- name: token
  user: {token: abc, as: boss, as-groups: [g1, g2], as-user-extra: {why: [because]}}
- name: certificate
  user: {client-certificate: c.pem, client-key-data: S0VZ}
- name: basic
  user: {username: me, password: pw}
- name: file
  user: {tokenFile: secrets/token, token: first}
- name: plugin
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks]}}
- name: oidc
  user: {auth-provider: {name: oidc, config: {id-token: x}}}
- name: static
  user: {auth-provider: {name: azure, config: {access-token: azt}}}
contexts:
- name: dev
  context: {cluster: one, user: token, namespace: team}
- {name: certificate, context: {cluster: two, user: certificate}}
- {name: basic, context: {cluster: two, user: basic}}
- {name: file, context: {cluster: two, user: file}}
- {name: plugin, context: {cluster: two, user: plugin}}
- {name: oidc, context: {cluster: two, user: oidc}}
- {name: static, context: {cluster: two, user: static}}
- {name: anonymous, context: {cluster: two}}
- {name: nowhere, context: {cluster: three, user: token}}
- {name: nobody, context: {cluster: one, user: somebody}}
- {name: empty}
"""


@pytest.fixture(autouse=True)
def nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    path = tmp_path / "full"
    path.write_text(FULL)
    return path


async def test_the_current_context(full: Path, tmp_path: Path) -> None:
    access = load_access(full)
    assert access.server == "https://one:6443"
    assert access.tls.ca_file == tmp_path / "ca.pem"
    assert (access.tls.server_name, access.proxy, access.default_namespace) == ("kubernetes", "http://p:3128", "team")
    assert access.compression
    assert (await access.credentials.authentication(period=60)).headers == (
        *bearer("abc"),
        ("Impersonate-User", "boss"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-why", "because"),
    )
    assert access.origin == f"context 'dev' of {full}"


async def test_other_contexts(full: Path, tmp_path: Path) -> None:
    access = load_access(full, "certificate")
    assert (access.tls.ca_data, access.tls.insecure, access.compression) == (b"ABC", False, False)
    assert (access.tls.certificate_file, access.tls.key_data) == (tmp_path / "c.pem", b"KEY")
    assert load_access(full, "basic").credentials == Constant(basic("me", "pw"))
    assert load_access(full, "anonymous").credentials == Constant()
    assert load_access(full, "static").credentials == Constant(bearer("azt"))
    assert isinstance(load_access(full, "plugin").credentials, ExecPlugin)
    assert isinstance(load_access(full, "oidc").credentials, AuthProvider)
    credentials = load_access(full, "file").credentials
    assert isinstance(credentials, TokenFile)
    assert (await credentials.authentication(period=60)).headers == bearer("first")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/token").write_text("second")
    assert (await credentials.authentication(period=0)).headers == bearer("second")


def test_several_files_are_one_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = tmp_path / "a/one", tmp_path / "b/two", tmp_path / "b/three"
    for path in (one, two):
        path.parent.mkdir()
    one.write_text("clusters: [{name: c, cluster: {server: 'https://one', certificate-authority: ca}}]")
    two.write_text(
        "current-context: x\n"
        "clusters: [{name: c, cluster: {server: 'https://two'}}, {name: d, cluster: {server: 'https://d', certificate-authority: ca}}]\n"
        "contexts: [{name: x, context: {cluster: c}}, {name: y, context: {cluster: d}}]\n"
    )
    three.write_text("current-context: y\n")
    absent = tmp_path / "absent"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, ["", absent, one, two, three])))
    assert (load_access().server, load_access().tls.ca_file) == ("https://one", one.parent / "ca")
    assert (load_access(context="y").server, load_access(context="y").tls.ca_file) == ("https://d", two.parent / "ca")


def test_the_file_in_the_home_folder_is_the_last_resort(full: Path, tmp_path: Path) -> None:
    (tmp_path / "home/.kube").mkdir(parents=True)
    (tmp_path / "home/.kube/config").write_text(full.read_text())
    assert load_access().server == "https://one:6443"


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(
        AccessError, match=r"KUBECONFIG is not set, .*home/.kube/config does not exist, and there is no"
    ):
        load_access()


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        (FULL, "prod", r"no such context: 'prod'. Its contexts are: anonymous, basic, certificate, dev"),
        (FULL, "nowhere", r"names the cluster 'three', which is not there. The clusters are: one, two"),
        (FULL, "nobody", r"names the user 'somebody', which is not there"),
        (FULL, "empty", r"names no cluster"),
        ("", None, r"has no current-context. Name one of its contexts \(none\)"),
        ("contexts: [{name: a}, {name: b}]", None, r"has no current-context. Name one of its contexts \(a, b\)"),
        ("current-context: gone", None, r"a current-context that does not exist: 'gone'"),
        ("a: [", None, r"is broken in line \d+: expected YAML"),
        ("\x01", None, r"is broken: expected YAML"),
        ("- a", None, r"expected a mapping with clusters, users and contexts, found a list"),
        ("clusters: {}\nusers: 7", None, r"`users` must be a list, found a number"),
        ("clusters: [{server: x}]", None, r"`clusters\[0\]` must be a mapping with a `name`"),
        ("users: [{name: x, user: y}]", None, r"`user` of 'x' must be a mapping, found a text"),
    ],
)
def test_bad_kubeconfigs_are_one_clear_message(content: str, context: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(AccessError, match=message) as caught:
        load_access(path, context)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ("{}", "{}", "has no `server`"),
        ("{server: 'ftp://x'}", "{}", "has the server 'ftp://x': expected https"),
        ("{server: x, certificate-authority-data: '%'}", "{}", "`certificate-authority-data` must be base64"),
        ("{server: x}", "{exec: {command: c}}", "lacks apiVersion"),
        ("{server: x}", "{exec: c}", "`exec` of the user 'u' must be a mapping"),
        ("{server: x}", "{auth-provider: {name: azure}}", "'azure', which is not supported"),
        (
            "{server: x, insecure-skip-tls-verify: 'false'}",
            "{}",
            "`insecure-skip-tls-verify` must be true or false, found a text",
        ),
        (
            "{server: x, insecure-skip-tls-verify: 1}",
            "{}",
            "`insecure-skip-tls-verify` must be true or false, found a number.",
        ),
        ("{server: x, disable-compression: 'no'}", "{}", "`disable-compression` must be true or false, found a text"),
        (
            "{server: x, insecure-skip-tls-verify: true, certificate-authority: ca.pem}",
            "{}",
            "`certificate-authority` together with `insecure-skip-tls-verify`",
        ),
        (
            "{server: x, insecure-skip-tls-verify: true, certificate-authority-data: QUJD}",
            "{}",
            "`certificate-authority-data` together with `insecure-skip-tls-verify`",
        ),
        ("{server: x, certificate-authority: true}", "{}", "`certificate-authority` must be a text, found a boolean"),
        ("{server: x, tls-server-name: [a]}", "{}", "`tls-server-name` must be a text, found a list"),
        ("{server: 'https://x:port'}", "{}", "has the server 'https://x:port': expected https"),
        ("{server: 'https://x:99999'}", "{}", "has the server 'https://x:99999': expected https"),
        ("{server: x, proxy-url: 'p:3128'}", "{}", "`proxy-url` must be http://HOST"),
        ("{server: x, proxy-url: 'socks5://me:s3cr3t@p'}", "{}", "`proxy-url` must be http://HOST"),
        ("{server: x}", "{token: 0123}", "`token` must be a text, found a number"),
        ("{server: x}", "{token: [a]}", "`token` must be a text, found a list"),
        ("{server: x}", '{token: "s3cr3t\\n"}', "`token` has a line break"),
        ("{server: x}", "{username: me, password: 17}", "`password` must be a text, found a number"),
        ("{server: x}", "{client-certificate-data: '%'}", "`client-certificate-data` must be base64"),
        ("{server: x}", "{as: me, as-groups: admins}", "`as-groups` must be a list of texts, found a text"),
        ("{server: x}", "{as: me, as-groups: [7]}", "`as-groups` must be a list of texts"),
        ("{server: x}", "{as: me, as-user-extra: [a]}", "`as-user-extra` must be a mapping of lists of texts"),
        (
            "{server: x}",
            "{as: me, as-user-extra: {why: because}}",
            "`as-user-extra` must be a mapping of lists of texts",
        ),
        ("{server: x}", "{as-groups: [a]}", "impersonates groups without a user"),
        ("{server: x}", "{as-uid: '7'}", "impersonates a uid without a user"),
        (
            "{server: x}",
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v2}}",
            "has the apiVersion '.*/v2'",
        ),
        (
            "{server: x}",
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1, args: c}}",
            "`args` must be a list",
        ),
        (
            "{server: x}",
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1, env: {A: b}}}",
            "`env` must be a list",
        ),
        (
            "{server: x}",
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1, env: [{name: A, value: 1}]}}",
            "`env` must be a list",
        ),
        (
            "{server: x}",
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Sometimes}}",
            "has the interactiveMode 'Sometimes'",
        ),
    ],
)
def test_bad_entries_are_one_clear_message(cluster: str, user: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        f"current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
        f"clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
    )
    with pytest.raises(AccessError, match=message) as caught:
        load_access(path)
    assert str(path) in str(caught.value)


def test_unreadable_files_are_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match=r"The given kubeconfig names .*absent, which does not exist"):
        load_access(tmp_path / "absent")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent{os.pathsep}{tmp_path}/gone")
    with pytest.raises(AccessError, match=r"\$KUBECONFIG names .*absent, .*gone, which does not exist"):
        load_access()
    with pytest.raises(AccessError, match="cannot be read: Is a directory"):
        load_access(tmp_path)
    (tmp_path / "binary").write_bytes(base64.b64decode("/////w=="))
    with pytest.raises(AccessError, match="no UTF-8"):
        load_access(tmp_path / "binary")


async def test_a_pods_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    with pytest.raises(AccessError, match=r"no service account in .*expected a file `token`"):
        incluster_access(tmp_path)
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_text("x")
    (tmp_path / "namespace").write_text("team\n")
    access = incluster_access(tmp_path)
    assert (access.server, access.default_namespace) == ("https://kubernetes.default.svc:443", "team")
    assert access.tls.ca_file == tmp_path / "ca.crt"
    assert (await access.credentials.authentication(period=60)).headers == bearer("one")
    (tmp_path / "token").write_text("two")
    assert (await access.credentials.authentication(period=0)).headers == bearer("two")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    assert incluster_access(tmp_path).server == "https://[fd00::1]:6443"


async def test_an_unsupported_proxy_is_one_clear_message() -> None:
    access = Access("http://x", proxy="socks5://u:secret@h:1", origin="login handler 'x'")
    async with Client(access, QUICK) as client:
        with pytest.raises(AccessError, match=r"proxy socks5://h:1 of login handler 'x' is not supported"):
            await client.list(PODS)


@pytest.mark.parametrize(
    ("cluster", "user", "server"),
    [
        ("{server: 'host:8080'}", "{}", "http://host:8080"),
        ("{server: host}", "{token: t}", "http://host"),
        ("{server: 'host:6443', certificate-authority: ca.pem}", "{}", "https://host:6443"),
        ("{server: 'host:6443/path/', certificate-authority-data: QUJD}", "{}", "https://host:6443/path"),
        ("{server: '10.0.0.1:6443', insecure-skip-tls-verify: true}", "{}", "https://10.0.0.1:6443"),
        ("{server: '[::1]:6443'}", "{client-certificate: c.pem}", "https://[::1]:6443"),
        ("{server: 'host:6443'}", "{client-certificate-data: QUJD, client-key-data: QUJD}", "https://host:6443"),
        ("{server: 'http://host', certificate-authority: ca.pem}", "{}", "http://host"),
    ],
)
def test_a_server_without_a_scheme_is_https_where_there_is_anything_of_tls(
    cluster: str, user: str, server: str, tmp_path: Path
) -> None:
    """As `defaultServerUrlFor` of client-go has it."""
    assert load_access(written(tmp_path / "config", cluster, user)).server == server


async def test_keys_of_impersonated_extras_are_escaped_in_their_headers(tmp_path: Path) -> None:
    user = "{as: me, as-user-extra: {example.com/scopes: [a, b]}}"
    access = load_access(written(tmp_path / "config", "{server: x}", user))
    assert (await access.credentials.authentication(period=60)).headers == (
        ("Impersonate-User", "me"),
        ("Impersonate-Extra-example.com%2Fscopes", "a"),
        ("Impersonate-Extra-example.com%2Fscopes", "b"),
    )


async def test_what_stands_in_a_kubeconfig_is_relative_to_its_folder_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/token").write_text("t")
    written(tmp_path / "folder/config", "{server: x, certificate-authority: ca.pem}", "{tokenFile: token}")
    monkeypatch.chdir(tmp_path)
    access = load_access("folder/config")
    monkeypatch.chdir("/")
    assert access.tls.ca_file == tmp_path / "folder/ca.pem"
    assert (await access.credentials.authentication(period=60)).headers == bearer("t")


def written(path: Path, cluster: str, user: str) -> Path:
    path.write_text(
        f"current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
        f"clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
    )
    return path
