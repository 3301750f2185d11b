"""Suites with own data and own load: paths, missing files, and steps that do not fit the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.records.steps.oltp import OltpStep
from volbench.core.suite.load import check_suite, load_suite
from volbench.core.suite.own_files import missing_files
from volbench.errors import UsageError

DUMP = "dataset: {kind: dump, path: shop.sql}\n"


def suite(steps: str, dataset: str = DUMP) -> str:
    return f"schema: 2\nname: own\n{dataset}steps: [{steps}]\n"


def test_relative_paths_count_from_the_suite_where_the_working_directory_has_no_such_file(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").touch()
    (tmp_path / "own.lua").touch()
    path = tmp_path / "own.yaml"
    path.write_text(suite("{kind: oltp, test: own.lua}, {kind: replay, log: slow.log}"))
    loaded, _ = load_suite(path)
    assert loaded.dataset.path == str(tmp_path / "shop.sql")
    (step, *_) = loaded.steps
    assert isinstance(step, OltpStep)
    assert step.test == str(tmp_path / "own.lua")
    ((key, fault),) = missing_files(loaded)
    assert key == ("steps", 1, "log")
    assert "slow.log" in fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (suite("{kind: oltp}"), "needs sysbench's tables"),
        (suite("{kind: cold_read}"), "table_scan needs sysbench's tables"),
        (suite("{kind: instances}"), "instances needs sysbench's tables"),
        (suite("{kind: restored}"), "restored needs sysbench's tables"),
        (suite("{kind: replica}"), "replica needs sysbench's tables"),
        (suite("{kind: replay, log: x}", dataset=""), "a replay needs a dataset of your own"),
        (suite("{kind: idle}", dataset="dataset: {kind: dump}\n"), "needs `path`"),
        (suite("{kind: idle}", dataset="dataset: {kind: schema, path: x}\n"), "needs `server`"),
        (suite("{kind: idle}", dataset="dataset: {path: x}\n"), "has no `path`"),
    ],
)
def test_what_does_not_fit_is_a_fault_of_the_suite(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_suite(text, name="own.yaml")
    assert message in refused.value.evidence


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://u:open,sesame@db1/shop",
        "mysql://u@h:open,sesame@db1/shop",
        "mysql://u@db1/shop?password=open,sesame",
    ],
)
def test_a_password_in_a_dataset_s_dsn_is_refused_before_a_record_of_the_run_has_it(dsn: str) -> None:
    text = suite("{kind: idle}", dataset=f"dataset: {{kind: schema, server: '{dsn}'}}\n")
    with pytest.raises(UsageError, match="the DSN has a password, which belongs in `option_file`") as caught:
        check_suite(text, name="s.yaml")
    assert "sesame" not in str(caught.value)


URL = "https://dumps.example.com/shop.sql.gz"


def test_a_dump_may_be_at_an_address() -> None:
    loaded = check_suite(
        suite("{kind: replay, log: x.log}", f"dataset: {{kind: dump, url: '{URL}', sha256: {'a' * 64}}}\n"),
        name="x",
    )
    assert loaded.dataset.url == URL
    assert [key for key, _ in missing_files(loaded)] == [("steps", 0, "log")]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("kind: dump", "needs `path` or `url`"),
        ("kind: script, path: own.lua, url: 'https://h/x.lua'", "has no `url`"),
        ("kind: dump, path: x.sql, sha256: " + "a" * 64, "there is none"),
        ("kind: dump, url: 'ftp://h/x.sql'", "https://HOST/FILE or s3://BUCKET/KEY"),
        ("kind: dump, url: 'https:///x.sql'", "https://HOST/FILE or s3://BUCKET/KEY"),
        ("kind: dump, url: 'https://u:p@h/x.sql'", "has a secret"),
        ("kind: dump, url: 'https://h/x.sql?X-Amz-Signature=abc'", "has a secret"),
        ("kind: dump, url: 's3://b/k?access_key=abc'", "has a secret"),
        ("kind: dump, url: 'http://h/x.sql'", "name its `sha256`"),
        ("kind: dump, url: 'https://h/x.sql'", "name its `sha256`"),
        ("kind: dump, url: 'https://h/dumps/'", "only s3:// has directories"),
        (f"kind: dump, url: 's3://b/k/?region=x', sha256: {'a' * 64}", "is a directory"),
        ("kind: dump, url: 'https://h/x', sha256: abc", "sha256"),
    ],
)
def test_an_address_that_cannot_be_used(keys: str, fault: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_suite(suite("{kind: replay, log: x.log}", f"dataset: {{{keys}}}\n"), name="x")
    assert fault in refused.value.evidence
    assert "abc" not in refused.value.evidence or "sha256: abc" in keys


def test_the_script_of_a_bundled_suite_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`suites/tpcc.yaml` in another directory is the bundled one, and so is the script that it names."""
    monkeypatch.chdir(tmp_path)
    suite, _ = load_suite(Path("suites/tpcc.yaml"))
    assert list(missing_files(suite)) == []
