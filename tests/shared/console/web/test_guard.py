"""Who is let in to a page: who knows its token, by a name that is this machine's."""

import platform
from http import HTTPStatus

import pytest

from shared.console.web.guard import Guard

GUARD = Guard("s3cret-Token_", ["train-host.example"])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "localhost:9000", "LocalHost", "[::1]:8080", "192.168.0.7:80",
     platform.node(), "train-host.example:8080"],
)  # fmt: skip
def test_a_name_of_this_machine_or_an_address_is_let_in(host):
    assert GUARD.check("GET", host, "/s3cret-Token_/now?run=0") == ["now"]


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.",
             "a:b:c", "[", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_another_site_s_name_that_was_made_to_lead_here_is_not(host):
    assert GUARD.check("GET", host, "/s3cret-Token_/") is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "target",
    ["/", "/now", "//s3cret-Token_/", "/s3cret-Token", "/s3cret-Token_", "/s3cret-Token_x/",
     "/S3CRET-TOKEN_/", "http://127.0.0.1/s3cret-Token_/", "", "/%733cret-Token_/", "/\udcff/"],
)  # fmt: skip
def test_without_the_token_there_is_nothing(target):
    assert GUARD.check("GET", "127.0.0.1", target) is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "DELETE", "OPTIONS", "get"])
def test_nobody_can_do_anything_but_get(method):
    assert GUARD.check(method, "127.0.0.1", "/s3cret-Token_/") is HTTPStatus.METHOD_NOT_ALLOWED


def test_the_parts_of_an_address_are_told_apart_before_they_are_read():
    found = GUARD.check("GET", "127.0.0.1", "/s3cret-Token_/sample/0/..%2f..%2fx")
    assert found == ["sample", "0", "../../x"]
