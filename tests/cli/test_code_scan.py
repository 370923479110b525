"""What source code shows of an operator."""

import pytest

from ctl.cli.rbac.code_scan import UNKNOWN, CodeFacts, scan_code


def seen(text: str) -> CodeFacts:
    return scan_code([text])


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("settings.peering.name = 'mine'", {"peering.name": "mine"}),
        ("context.settings.peering.name = 'mine'", {"peering.name": "mine"}),
        ("settings.peering.standalone = True", {"peering.standalone": True}),
        ("settings.peering.priority = int(os.environ['P'])", {"peering.priority": UNKNOWN}),
        ("settings.peering.name, x = 'a', 1", {"peering.name": UNKNOWN}),
        ("settings.leadership.labels['a'] = 'b'", {"leadership.labels": "b"}),
        ("settings.posting.level += 10", {"posting.level": UNKNOWN}),
        ("settings = 1\nother.peering.name = 'x'\npeering.name = 'y'", {}),
    ],
)
def test_settings(text: str, settings: dict[str, object]) -> None:
    assert seen(text).settings == settings


@pytest.mark.parametrize(
    ("text", "posts"),
    [
        ("import ctl\nctl.info(body, reason='R')", True),
        ("import kopf\nkopf.event(body, type='T', reason='R')", True),
        ("import kopf as k\nk.warn(body)", True),
        ("from ctl import exception as oops\noops(body)", True),
        ("context.info(reason='R', message='m')", True),
        ("settings.posting.loggers = True", True),
        ("settings.posting.loggers = flag()", True),
        ("settings.posting.loggers = False", False),
        ("import ctl\nlogger.info('text')\nlogging.warn('x')\nctl.on.event('pods')(fn)", False),
        ("info('x')", False),
    ],
)
def test_posts(text: str, posts: bool) -> None:
    assert seen(text).posts is posts


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("import kubernetes", True),
        ("import kubernetes.client as k", True),
        ("from kubernetes import client", True),
        ("from pykube import Pod", True),
        ("from ctl.client.rest import Client", True),
        ("import ctl\nctl.Client(ctl.load_access())", True),
        ("import ctl\nctl.on.create('x')(fn)\nfrom kubernetes_like import x", False),
    ],
)
def test_clients(text: str, own: bool) -> None:
    assert seen(text).has_client is own


def test_several_files_and_one_that_is_none() -> None:
    found = scan_code(["settings.peering.name = 'a'", "this is no Python", "ctl.ConfigMapProgressStorage()"])
    assert found.touches("peering")
    assert not found.touches("peer")
    assert "ConfigMapProgressStorage" in found.names
