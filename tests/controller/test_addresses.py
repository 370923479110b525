"""Where an operator shows its pages."""

import pytest

from ctl.controller.http.addresses import Address, Site, parse_http, parse_liveness, sites

AUTO = Address("", 8080, explicit=False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("off", None),
        (9090, Address("", 9090)),
        ("9090", Address("", 9090)),
        (":9090", Address("", 9090)),
        ("*:9090", Address("", 9090)),
        ("0.0.0.0:9090", Address("0.0.0.0", 9090)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9090", Address("::1", 9090)),
    ],
)
def test_addresses_as_people_write_them(text: str | int | None, found: Address | None) -> None:
    assert parse_http(text, in_cluster=False) == found
    assert parse_http(text, in_cluster=True) == found


def test_the_default_is_a_port_in_a_cluster_and_nothing_else() -> None:
    assert parse_http("auto", in_cluster=True) == AUTO
    assert parse_http("auto", in_cluster=False) is None


@pytest.mark.parametrize("text", ["", "http", "host:", "::1:8080", "1.2.3.4:99999", "http://x:1", "-1", "²"])
def test_what_is_no_address_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is \[HOST:\]PORT"):
        parse_http(text, in_cluster=True)


def test_liveness_urls() -> None:
    assert parse_liveness(None) is None
    assert parse_liveness("http://0.0.0.0:8080/healthz") == Site(Address("0.0.0.0", 8080), path="/healthz")
    assert parse_liveness("http:///") == Site(Address("localhost", 80), path="/")
    assert parse_liveness("http://[::1]:81") == Site(Address("::1", 81), path="/")
    with pytest.raises(ValueError, match="Unsupported scheme: tcp://"):
        parse_liveness("tcp://localhost:80")


@pytest.mark.parametrize(
    ("http", "probe", "shared"),
    [
        (AUTO, Address("0.0.0.0", 8080), Address("", 8080)),
        (AUTO, Address("localhost", 8080), Address("", 8080)),
        (Address("127.0.0.1", 8080), Address("localhost", 8080), Address("127.0.0.1", 8080)),
        (Address("127.0.0.1", 8080), Address("0.0.0.0", 8080), Address("", 8080)),
        (Address("10.0.0.1", 8080), Address("10.0.0.1", 8080), Address("10.0.0.1", 8080)),
    ],
)
def test_one_address_is_one_server(http: Address, probe: Address, shared: Address) -> None:
    (site,) = sites(http, Site(probe, path="/live"))
    assert site == Site(shared, pages=True, path="/live", is_early=http.explicit)
    assert site.address.explicit, "somebody asked for liveness there"


@pytest.mark.parametrize(
    ("http", "probe"),
    [
        (AUTO, Address("0.0.0.0", 8081)),
        (Address("127.0.0.1", 8080), Address("10.0.0.1", 8080)),
        (Address("", 0), Address("", 0)),
    ],
)
def test_two_addresses_are_two_servers(http: Address, probe: Address) -> None:
    assert sites(http, Site(probe, path="/")) == [Site(http, pages=True, is_early=http.explicit), Site(probe, path="/")]


def test_nothing_asked_for_is_no_server() -> None:
    assert sites(None, None) == []
    assert [str(site) for site in sites(AUTO, None)] == ["Metrics and health"]
    assert [str(site) for site in sites(AUTO, Site(AUTO, path="/"))] == ["Metrics and health and liveness"]
