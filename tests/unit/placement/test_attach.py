"""DSNs: what is read of them, and that no message repeats a password, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from volbench.errors import UsageError
from volbench.placement.attach import parse_dsn, target_options, without_password

SECRET = "Pw7sesame"  # noqa: S105 - it must not be seen


@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://u@h:{SECRET}/x", f"mysql://u@h/x?password={SECRET}", f"mysql://u@h/x?PASSWORD={SECRET}",
        f"mysql://h/x?user=u&pwd={SECRET}", f"mysql://u%3A{SECRET}@h/x", f"mysql://u@h/x#{SECRET}",
        f"mysql://u@h/x;password={SECRET}", f"mysql://u@h/x/{SECRET}!", f"mysql://u@[{SECRET}/x",
        f"mysql:u:{SECRET}@h/x", f"mysql://u:{SECRET}/y@h/x", f"mysqlx://u:{SECRET}@h", f"u:{SECRET}/x@h",
        f"mysql://u@h/x?socket=/s&password={SECRET}", f"mysql://u@h/x?{SECRET}=1", f"//u:{SECRET}@h",
        f"u/{SECRET}@h/x", f"mysql://u@h/x?ssl-mode={SECRET}", f"mysql://u@h/x?ssl-mode=REQUIRED&pass={SECRET}",
    ],
)  # fmt: skip
def test_no_message_repeats_a_password(dsn: str) -> None:
    """Each of them is refused, too."""
    with pytest.raises(UsageError) as refused:
        parse_dsn(dsn)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://u@h:3306/x",
        "mysql://h",
        "mysql://u@localhost/x?socket=/run/s",
        "mysql://[::1]:7/x",
        "mysql://u@h:3306/x?ssl-mode=verify_identity&ssl-ca=/etc/ca.pem",
        "mysql://u@h/x?ssl-ca=/c.pem&ssl-cert=/a/c.pem&ssl-key=/k.pem",
    ],
)
def test_a_dsn_without_a_password_is_shown_as_it_is(dsn: str) -> None:
    assert without_password(dsn) == dsn
    assert without_password(f"--server={dsn}") == f"--server={dsn}"
    parse_dsn(dsn)


@pytest.mark.parametrize(
    "argument",
    [
        "engine.image=mysql:8.0",
        "registry:5000/a/mysql:9.7",
        "s3://bucket/prefix",
        "nfs:server:/export?vers=4.1",
        "a b@c",
    ],
)
def test_other_arguments_stay(argument: str) -> None:
    assert without_password(argument) == argument


@given(
    before=some.sampled_from(
        ["mysql://u:", "mysql://u@h:", "mysql://u@h/x?password=", "mysql://:", "mariadb://u:"]
    ),
    noise=some.text(alphabet="abc/@:?#&=%.[]!", max_size=12),
    after=some.sampled_from(["@h/x", "@h", "/x", "", "@h:3306/x?socket=/s"]),
)
def test_no_shape_of_a_dsn_shows_a_password(before: str, noise: str, after: str) -> None:
    assert SECRET not in without_password(f"{before}{SECRET}{noise}{after}")
    if "@" not in noise or "@" in after:  # else what follows the last @ is a host, not a password
        assert SECRET not in without_password(f"{before}{noise}{SECRET}{after}")


def test_the_tls_options_are_those_of_mysqls_clients() -> None:
    """Any case of the mode; paths become absolute, since a cell's agent works elsewhere; run.json keeps them."""
    attach = parse_dsn("mysql://u@h/x?ssl-mode=verify_identity&ssl-ca=ca.pem&ssl-cert=/c.pem&ssl-key=/k.pem")
    assert attach.ssl_mode == "VERIFY_IDENTITY"
    assert attach.ssl_ca == str(Path("ca.pem").absolute())
    assert target_options(attach)["ssl_ca"] == attach.ssl_ca
    with pytest.raises(UsageError, match="unknown ssl-mode"):
        parse_dsn("mysql://u@h/x?ssl-mode=verify")
