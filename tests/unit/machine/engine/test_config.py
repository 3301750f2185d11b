"""my.cnf: pinned durability, the suite's options on top, and nothing of a suite that could break out."""

from __future__ import annotations

import pytest

from volbench.core.records.base import Scalar
from volbench.errors import UsageError
from volbench.machine.engine.allowed_options import ALLOWED_OPTIONS
from volbench.machine.engine.config import PINNED, ServerPaths, checked_options, render_config
from volbench.machine.engine.differences import OPTIONS, ServerIdentity

MYSQL = ServerIdentity(flavor="mysql", version="8.4.3")
MARIADB = ServerIdentity(flavor="mariadb", version="10.11.6-MariaDB")
PATHS = ServerPaths(data_dir="/v/data", control_dir="/c", tmp_dir="/v/tmp")


def lines(
    options: dict[str, Scalar] | None = None, *, identity: ServerIdentity = MYSQL, as_root: bool = False
) -> list[str]:
    return render_config(identity=identity, paths=PATHS, options=options or {}, as_root=as_root).text.splitlines()


@pytest.mark.parametrize("identity", [MYSQL, MARIADB])
def test_both_flavors_are_pinned_to_the_same_durability(identity: ServerIdentity) -> None:
    """Defaults differ (MariaDB ships without binary log), so a comparison needs them stated."""
    rendered = lines(identity=identity)
    for line in (
        "[mysqld]",
        "innodb_flush_log_at_trx_commit = 1",
        "sync_binlog = 1",
        "log_bin = binlog",
        "innodb_doublewrite = ON",
        "innodb_buffer_pool_load_at_startup = OFF",
        "skip_networking = ON",
        "socket = /c/mysqld.sock",
        "datadir = /v/data",
        "tmpdir = /v/tmp",
    ):
        assert line in rendered


def test_mysqls_own_options_are_not_given_to_mariadb() -> None:
    assert "mysqlx = OFF" in lines()
    assert not any(line.startswith(("mysqlx", "auto_generate_certs")) for line in lines(identity=MARIADB))


def test_both_are_closed_to_files() -> None:
    for identity, closed in ((MYSQL, "NULL"), (MARIADB, "/dev/null")):
        assert f"secure_file_priv = {closed}" in lines(identity=identity)
        assert "local_infile = OFF" in lines(identity=identity)


def test_the_suites_options_win_over_pinned_ones() -> None:
    rendered = lines({"innodb-flush-log-at-trx-commit": 2, "log_bin": False, "Innodb_Doublewrite": False})
    assert "innodb_flush_log_at_trx_commit = 2" in rendered
    assert "innodb_flush_log_at_trx_commit = 1" not in rendered
    assert "skip_log_bin" in rendered
    assert not any(line.startswith("log_bin") for line in rendered)
    assert "innodb_doublewrite = OFF" in rendered


def test_binary_sizes_are_written_as_bytes() -> None:
    """A server knows 64M, but not 64MiB."""
    rendered = lines({"innodb_buffer_pool_size": "64MiB", "innodb_redo_log_capacity": "1G"})
    assert f"innodb_buffer_pool_size = {64 << 20}" in rendered
    assert "innodb_redo_log_capacity = 1G" in rendered


def test_only_root_names_its_user() -> None:
    assert "user = root" in lines(as_root=True)
    assert not any(line.startswith("user") for line in lines())


def test_only_what_the_suite_asked_for_is_noted_as_missing() -> None:
    """Pinned options that a flavor does not have are nobody's business."""
    rendered = render_config(identity=MARIADB, paths=PATHS, options={"innodb_use_fdatasync": True}, as_root=False)
    assert len(rendered.notes) == 1
    assert "innodb_use_fdatasync" in rendered.notes[0]


@pytest.mark.parametrize(
    "name",
    [
        "datadir",
        "socket",
        "port",
        "bind-address",
        "pid_file",
        "init_file",
        "user",
        "skip-networking",
        "SKIP_GRANT_TABLES",
        "loose_datadir",
        "skip-skip-networking",
        "datad",
        "innodb_undo_dir",
        "sock",
        "plugin_dir",
        "innodb_log_group_home_dir",
        "defaults-file",
        "mysqlx",
        "tmpdir",
        "log-error",
    ],
)
def test_options_of_the_harness_are_refused_in_every_spelling(name: str) -> None:
    """With prefixes that servers know, and shortened, which servers take too."""
    with pytest.raises(UsageError, match="only volbench may set"):
        checked_options({name: "x"})


@pytest.mark.parametrize("name", [*PINNED, "general_log", "slow_query_log", "skip_log_bin"])
def test_options_whose_names_merely_begin_like_those_are_not(name: str) -> None:
    assert checked_options({name: 1})


@pytest.mark.parametrize("name", ["a b", "x\n[client]", "", "sync_binlog=0\nport", "[mysqld]", "!include"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        checked_options({name: 1})


@pytest.mark.parametrize("value", ["1\nsocket=/x", "1\r", "a\x00b", "\x7f"])
def test_values_cannot_begin_a_new_line(value: str) -> None:
    with pytest.raises(UsageError, match="control character"):
        checked_options({"sql_mode": value})


def test_other_odd_values_are_quoted() -> None:
    assert r'sql_mode = "a # \"b\" \\n ; c"' in lines({"sql_mode": 'a # "b" \\n ; c'})


def test_a_binary_log_outside_the_data_directory_is_refused() -> None:
    with pytest.raises(UsageError, match="log_bin"):
        checked_options({"log_bin": "/elsewhere/binlog"})


def test_one_option_in_two_spellings_must_agree() -> None:
    assert checked_options({"sync-binlog": 1, "sync_binlog": 1}) == {"sync_binlog": 1}
    with pytest.raises(UsageError, match="twice"):
        checked_options({"sync-binlog": 1, "sync_binlog": 0})


def test_cpu_times_of_statements_are_kept_unless_the_suite_says_otherwise() -> None:
    """By a name that servers before 8.0.28 pass over; MariaDB has nothing of the kind."""
    option = "performance_schema_consumer_events_statements_cpu"
    assert f"loose_{option} = ON" in lines()
    assert not any(option in line for line in lines(identity=MARIADB))
    chosen = [line for line in lines({option: False}) if option in line]
    assert chosen == [f"{option} = OFF"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plugin_load_add", "evil=evil.so"),
        ("plugin_load", "x.so"),
        ("early-plugin-load", "x"),
        ("wsrep_provider", "x"),
        ("loose_wsrep_notify_cmd", "x"),
        ("innodb_temp_data_file_path", "x:12M"),
        ("log_tc", "x"),
        ("ssl_key", "x"),
        ("innodb_redo_log_archive_dirs", "x"),
        ("local_infile", 1),
        ("keyring_file_data", "x"),
        ("symbolic_links", 1),
        ("innodb_buffer_pool_filename", "x"),
        ("master_info_file", "x"),
        ("report_host", "x"),
        ("ft_stopword_file", "x"),
        ("validate_password.policy", 0),
        ("innodb_sys", 1),
    ],
)
def test_options_that_reach_beyond_the_data_directory_are_refused(name: str, value: Scalar) -> None:
    """Files elsewhere, code that is loaded, clusters that are joined: only what is on the list may be set."""
    with pytest.raises(UsageError, match="is not a server option that a suite may set"):
        checked_options({name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("innodb_data_file_path", "../../x:12M"), ("sql_mode", "/etc/passwd"), ("log_bin", "a/b")]
)
def test_values_name_nothing_outside_the_data_directory(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="outside the data directory"):
        checked_options({name: value})


def test_a_time_zone_and_an_instrument_hold_a_slash() -> None:
    options = {"default_time_zone": "Europe/Berlin", "performance_schema_instrument": "wait/io/file/%=ON"}
    assert checked_options(options) == options


def test_a_typing_error_is_told_with_the_nearest_option() -> None:
    with pytest.raises(UsageError, match="perhaps you meant innodb_buffer_pool_size"):
        checked_options({"innodb_bufer_pool_size": "1G"})


def test_every_option_that_volbench_knows_of_may_be_set() -> None:
    assert set(OPTIONS) | set(PINNED) - {"skip_name_resolve"} <= ALLOWED_OPTIONS


def test_a_port_is_opened_on_the_loopback_only() -> None:
    """For the replica of this machine; MySQL and MariaDB replicate over TCP alone."""
    paths = ServerPaths(data_dir="/v/data", control_dir="/c", tmp_dir="/v/tmp", port=40123)
    rendered = render_config(identity=MYSQL, paths=paths, options={}, as_root=False).text.splitlines()
    assert {"bind_address = 127.0.0.1", "port = 40123"} <= set(rendered)
    assert not any(line.startswith("skip_networking") for line in rendered)
