"""DSNs: what is read of them, and that no message repeats a password, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from volbench.core.records.run import RunRecord
from volbench.errors import UsageError
from volbench.machine.placement.attach import (
    attach_of,
    parse_dsn,
    parse_servers,
    target_options,
    without_password,
)
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest

SUITE = Path(__file__).parents[4] / "suites" / "quick.yaml"
SECRET = "Pw7sesame"


@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://u@h:{SECRET}/x",
        f"mysql://u@h/x?password={SECRET}",
        f"mysql://u@h/x?PASSWORD={SECRET}",
        f"mysql://h/x?user=u&pwd={SECRET}",
        f"mysql://u%3A{SECRET}@h/x",
        f"mysql://u@h/x#{SECRET}",
        f"mysql://u@h/x;password={SECRET}",
        f"mysql://u@h/x/{SECRET}!",
        f"mysql://u@[{SECRET}/x",
        f"mysql:u:{SECRET}@h/x",
        f"mysql://u:{SECRET}/y@h/x",
        f"mysqlx://u:{SECRET}@h",
        f"u:{SECRET}/x@h",
        f"mysql://u@h/x?socket=/s&password={SECRET}",
        f"mysql://u@h/x?{SECRET}=1",
        f"//u:{SECRET}@h",
        f"u/{SECRET}@h/x",
        f"mysql://u@h/x?ssl-mode={SECRET}",
        f"mysql://u@h/x?ssl-mode=REQUIRED&pass={SECRET}",
    ],
)
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
    assert target_options({"server": attach})["ssl_ca"] == attach.ssl_ca
    with pytest.raises(UsageError, match="unknown ssl-mode"):
        parse_dsn("mysql://u@h/x?ssl-mode=verify")


A, B = "a=mysql://u@db1:3307/x", "b=mysql://u@localhost/y?socket=/run/b.sock"


@pytest.mark.parametrize("named", [[A, B], ["mysql://u@db1:3307/x"]])
def test_the_servers_of_a_run_are_those_of_its_record(named: list[str]) -> None:
    """For `resume`: one server is in the target's options, several are in the volumes that stand for them."""
    planned = make_plan(
        SUITE, [], TargetRequest(servers=named, option_files=["/etc/all.cnf"]), settings=["repeats=2"]
    )
    run = RunRecord.model_validate_json(planned.run.model_dump_json(by_alias=True))
    assert attach_of(run) == planned.attached == parse_servers(named, ["/etc/all.cnf"])
    assert {server.option_file for server in attach_of(run, ["/etc/new.cnf"]).values()} == {"/etc/new.cnf"}
    assert len(run.cells) == 2 * len(named)
    assert attach_of(run.model_copy(update={"target": "local"})) == {}


def test_each_server_may_have_an_option_file_of_its_own(tmp_path: Path) -> None:
    servers = parse_servers([A, B], ["b=/etc/b.cnf", "/etc/all.cnf"])
    assert {name: server.option_file for name, server in servers.items()} == {
        "a": "/etc/all.cnf",
        "b": "/etc/b.cnf",
    }
    assert servers["a"].port == 3307
    assert servers["b"].socket == "/run/b.sock"
    odd = tmp_path / "x=y.cnf"
    assert parse_servers(["mysql://u@h/x"], [str(odd)])["server"].option_file == str(odd)


@pytest.mark.parametrize(
    ("servers", "files", "fault"),
    [
        (["mysql://u@h/x", "mysql://u@i/x"], [], "a name of its own"),
        ([A, "mysql://u@i/x"], [], "a name of its own"),
        ([A, A], [], "a name of its own"),
        ([A, B], ["/one.cnf", "/two.cnf"], "two option files"),
        ([A, f"b=mysql://u:{SECRET}@h/x"], [], "a password does not belong"),
        (["a=db1"], [], "begins with mysql://"),
    ],
)
def test_servers_that_cannot_be_told_apart_are_refused(servers: list[str], files: list[str], fault: str) -> None:
    with pytest.raises(UsageError, match=fault) as refused:
        parse_servers(servers, files)
    assert SECRET not in str(refused.value)
