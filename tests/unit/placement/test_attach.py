"""DSNs: what is read of them, and that no message repeats a password, wherever it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from volbench.errors import UsageError
from volbench.placement.attach import parse_dsn, without_password

SECRET = "Pw7sesame"  # noqa: S105 - it must not be seen


@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://u@h:{SECRET}/x", f"mysql://u@h/x?password={SECRET}", f"mysql://u@h/x?PASSWORD={SECRET}",
        f"mysql://h/x?user=u&pwd={SECRET}", f"mysql://u%3A{SECRET}@h/x", f"mysql://u@h/x#{SECRET}",
        f"mysql://u@h/x;password={SECRET}", f"mysql://u@h/x/{SECRET}!", f"mysql://u@[{SECRET}/x",
        f"mysql:u:{SECRET}@h/x", f"mysql://u:{SECRET}/y@h/x", f"mysqlx://u:{SECRET}@h", f"u:{SECRET}/x@h",
        f"mysql://u@h/x?socket=/s&password={SECRET}", f"mysql://u@h/x?{SECRET}=1", f"//u:{SECRET}@h",
        f"u/{SECRET}@h/x",
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
