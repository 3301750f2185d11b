"""Result packs: what they hold, and that none whose figures do not follow from its tables is accepted."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic_run import HOST, OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.records.pack import PACK_FILE
from volbench.core.suite.bundled import bundled_path
from volbench.errors import Refused, RunUnreadable, UsageError, VolbenchError
from volbench.results.pack.check import check_pack
from volbench.results.pack.make import make_pack
from volbench.results.store.run_directory import RunDirectory

RUN = Synthetic(volumes=(SyntheticVolume(name="disk"), SyntheticVolume(name="b", speed=0.5)), steps=(OLTP,))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return build_run(tmp_path_factory.mktemp("results"), RUN)


@pytest.fixture
def pack(run: RunDirectory, tmp_path: Path) -> Path:
    return make_pack(run, tmp_path / "a.volbench.zip", storage_classes={"b": "ebs-gp3"}, region="eu-central-1").path


def members(pack: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path: Path, files: dict[str, bytes], *, honest_digests: bool = True) -> Path:
    """Write an archive, by default with the digests of its files: a forger computes them too."""
    record = json.loads(files[PACK_FILE])
    if honest_digests:
        record["files"] = {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
            if name != PACK_FILE
        }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, PACK_FILE: json.dumps(record).encode()}.items():
            archive.writestr(name, content)
    return path


def with_results(
    files: dict[str, bytes], change: Callable[[dict[str, dict[str, float]]], None]
) -> dict[str, bytes]:
    changed = dict(files)
    for name, content in files.items():
        if name.endswith("result.json"):
            result = json.loads(content)
            change(result["steps"][0]["metrics"])
            changed[name] = json.dumps(result).encode()
    return changed


def multiplied(metric: str, factor: float) -> Callable[[dict[str, dict[str, float]]], None]:
    def change(metrics: dict[str, dict[str, float]]) -> None:
        metrics[metric]["value"] *= factor

    return change


def test_a_pack_of_a_run_holds(pack: Path, run: RunDirectory) -> None:
    checked = check_pack(pack)
    assert checked.digest == hashlib.sha256(pack.read_bytes()).hexdigest()
    assert checked.report.run_id == run.path.name
    assert checked.recomputed == 50  # rate and four percentiles of ten cells
    assert checked.figures > checked.recomputed
    assert not any("tables" in mark for mark in checked.marks)


def test_the_same_run_makes_the_same_bytes(run: RunDirectory, tmp_path: Path) -> None:
    assert make_pack(run, tmp_path / "a.zip").digest == make_pack(run, tmp_path / "b.zip").digest


def test_no_name_of_a_machine_is_in_a_pack(pack: Path) -> None:
    assert HOST.hostname is not None
    for name, content in members(pack).items():
        assert HOST.hostname.encode() not in content, name


def test_an_nfs_server_and_a_servers_address_are_in_no_file_of_a_pack(tmp_path: Path) -> None:
    """They stand in a SPEC, in the command and in the places of an attached server too."""
    directory = build_run(tmp_path / "results", RUN)
    server, export, host, socket = (
        "files.example.internal",
        "/export/mysql",
        "db7.example.internal",
        "/run/db7/s.sock",
    )
    run = json.loads((directory.path / "run.json").read_text())
    spec = f"{server}:{export}"
    run["volumes"][0] |= {"kind": "nfs", "location": spec, "text": f"nfs:{spec}"}
    run["command"] = ["volbench", "run", "--volume", f"a=nfs:{spec}", "--server", f"mysql://u@{host}/x"]
    (directory.path / "run.json").write_text(json.dumps(run))
    for path in directory.path.glob("cells/*/*.json"):
        record = json.loads(path.read_text())
        if path.name == "cell.json":
            record["attach"] = {"host": host, "socket": socket}
        else:
            record["volume_facts"] |= {"nfs_server": server, "nfs_export": export, "mount_source": spec}
        path.write_text(json.dumps(record))
    pack = make_pack(RunDirectory.open(directory.path), tmp_path / "p.zip").path
    for name, content in members(pack).items():
        for private in (server, export, host, socket):
            assert private.encode() not in content, (name, private)
    assert check_pack(pack).recomputed > 0


def test_a_label_comes_from_the_user_or_the_facts(pack: Path, run: RunDirectory, tmp_path: Path) -> None:
    assert check_pack(pack).record.storage_classes == {"b": "ebs-gp3"}
    assert make_pack(run, tmp_path / "c.zip").without_class == ("disk", "b")
    with pytest.raises(UsageError, match="no volume 'nope'"):
        make_pack(run, tmp_path / "d.zip", storage_classes={"nope": "x"})
    with pytest.raises(UsageError, match="label"):
        make_pack(run, tmp_path / "d.zip", storage_classes={"b": "<script>"})


def test_a_file_that_is_there_stays(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"mine")
    with pytest.raises(Refused, match="there already"):
        make_pack(run, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("metric", "factor"),
    [("tps", 1.02), ("tps", 0.5), ("latency_ms_p50", 0.9), ("latency_ms_p95", 0.8), ("latency_ms_p99", 1.3)],
)
def test_a_figure_that_its_table_does_not_give_is_refused(
    pack: Path, tmp_path: Path, metric: str, factor: float
) -> None:
    forged = packed(tmp_path / "forged.zip", with_results(members(pack), multiplied(metric, factor)))
    with pytest.raises(Refused, match="do not follow"):
        check_pack(forged)


def test_tables_that_no_client_could_make_are_refused(pack: Path, tmp_path: Path) -> None:
    """A forger multiplies rates in the tables too; eight threads cannot make them."""
    files = with_results(members(pack), multiplied("tps", 3))
    for name, content in files.items():
        if name.endswith("histograms.parquet"):
            table = pq.read_table(pa.BufferReader(content))
            for column in ("events", "below", "above"):
                field = table.schema.get_field_index(column)
                table = table.set_column(field, table.schema.field(column), pc.multiply(table[column], 3))
            counts = pa.array(
                [[3 * count for count in row] for row in table["count"].to_pylist()], pa.list_(pa.int64())
            )
            field = table.schema.get_field_index("count")
            table = table.set_column(field, table.schema.field("count"), counts)
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink)
            files[name] = sink.getvalue().to_pybytes()
    with pytest.raises(Refused, match="8 threads"):
        check_pack(packed(tmp_path / "forged.zip", files))


def test_a_file_that_was_changed_is_refused(pack: Path, tmp_path: Path) -> None:
    files = with_results(members(pack), multiplied("qps", 0.5))
    with pytest.raises(Refused, match="SHA-256 differs") as caught:
        check_pack(packed(tmp_path / "forged.zip", files, honest_digests=False))
    assert "changed after it was made" in caught.value.what


def test_files_that_the_record_does_not_name_are_refused(pack: Path, tmp_path: Path) -> None:
    files = members(pack) | {"cells/x/notes.txt": b"more"}
    with pytest.raises(VolbenchError):
        check_pack(packed(tmp_path / "more.zip", files, honest_digests=False))
    fewer = members(pack)
    del fewer["journal.jsonl"]
    with pytest.raises(Refused, match="changed after"):
        check_pack(packed(tmp_path / "fewer.zip", fewer, honest_digests=False))


@pytest.mark.parametrize("name", ["../out", "/etc/x", "cells/../../x/result.json"])
def test_a_name_outside_of_a_run_is_refused(pack: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(VolbenchError):
        check_pack(packed(tmp_path / "odd.zip", members(pack) | {name: b"x"}))
    assert not (tmp_path.parent / "out").exists()


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04" + bytes(50)])
def test_another_file_is_no_pack(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(RunUnreadable, match="not a result pack"):
        check_pack(tmp_path / "x.zip")


def test_a_pack_of_another_version_says_so(pack: Path, tmp_path: Path) -> None:
    files = members(pack)
    files[PACK_FILE] = json.dumps(json.loads(files[PACK_FILE]) | {"schema": 2}).encode()
    with pytest.raises(RunUnreadable, match="schema 2 cannot be read"):
        check_pack(packed(tmp_path / "new.zip", files))


def test_a_bomb_is_not_unpacked(pack: Path, tmp_path: Path) -> None:
    files = members(pack)
    record = json.loads(files[PACK_FILE])
    record["files"]["journal.jsonl"]["bytes"] = 10
    files[PACK_FILE] = json.dumps(record).encode()
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (files | {"journal.jsonl": bytes(64 << 20)}).items():
            archive.writestr(name, content)
    with pytest.raises(Refused, match="larger than 10 bytes"):
        check_pack(tmp_path / "bomb.zip")


def changed_run(files: dict[str, bytes], change: Callable[[dict[str, object]], None]) -> dict[str, bytes]:
    run = json.loads(files["run.json"])
    change(run)
    return files | {"run.json": json.dumps(run).encode()}


def test_marks_say_what_limits_a_pack(pack: Path, tmp_path: Path) -> None:
    files = members(pack)
    for name in list(files):
        if name.endswith("result.json"):
            result = json.loads(files[name])
            result["host"]["cpu_model"] = None
            result["volume_facts"]["emulated_profile"] = "ebs-gp3"
            files[name] = json.dumps(result).encode()

    def older(run: dict[str, object]) -> None:
        run["volbench_version"] = "0.1.0"

    marks = " ".join(check_pack(packed(tmp_path / "m.zip", changed_run(files, older))).marks)
    for expected in ("emulated volume (ebs-gp3)", "the machine is not stated", "volbench 0.1.0 measured it"):
        assert expected in marks


def test_own_data_are_not_packed_unasked(tmp_path: Path) -> None:
    directory = build_run(tmp_path / "results", RUN)
    run = json.loads((directory.path / "run.json").read_text())
    run["suite"]["steps"][0]["test"] = "mine.lua"
    (directory.path / "run.json").write_text(json.dumps(run))
    with pytest.raises(Refused, match="of your own"):
        make_pack(RunDirectory.open(directory.path), tmp_path / "a.zip")
    assert make_pack(RunDirectory.open(directory.path), tmp_path / "a.zip", with_own_data=True).bytes > 0


def test_a_script_of_volbench_is_not_own_data(tmp_path: Path) -> None:
    directory = build_run(tmp_path / "results", RUN)
    run = json.loads((directory.path / "run.json").read_text())
    script = str(bundled_path(Path("suites/lua/tpcc.lua")).absolute())
    run["suite"]["steps"][0]["test"] = script
    run["suite"]["dataset"] |= {"kind": "script", "path": script}
    (directory.path / "run.json").write_text(json.dumps(run))
    assert make_pack(RunDirectory.open(directory.path), tmp_path / "a.zip").bytes > 0


def test_a_load_of_one_suite_has_one_digest(pack: Path, tmp_path: Path) -> None:
    def longer(run: dict[str, object]) -> None:
        run["suite"]["steps"][0]["duration"] = 90.0  # type: ignore[index]

    def more_repeats(run: dict[str, object]) -> None:
        run["suite"]["repeats"] = 7  # type: ignore[index]

    plain = check_pack(pack).suite_digest
    files = members(pack)
    assert check_pack(packed(tmp_path / "r.zip", changed_run(files, more_repeats))).suite_digest == plain
    assert check_pack(packed(tmp_path / "l.zip", changed_run(files, longer))).suite_digest != plain
