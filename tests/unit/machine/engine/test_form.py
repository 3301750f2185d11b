"""The form of a file of SQL by its bytes: read as what it is, or refused by a plan with what it is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from volbench.errors import UsageError
from volbench.machine.engine.own_data.dump_filter import DumpFilter, LeftOut
from volbench.machine.engine.own_data.form import check_sql_file, sql_of, zip_of_sql

SQL = "CREATE TABLE t (a INT, b TEXT);\nINSERT INTO t VALUES (1, 'Grüße \U0001f600');\n" * 40


def tar_of(members: Mapping[str, bytes], tar_format: int = tarfile.GNU_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def zip_with(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def with_password(content: bytes) -> bytes:
    """Return a zip of one member whose two headers say that it is encrypted."""
    flagged = bytearray(content)
    for magic, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        flagged[content.index(magic) + offset] |= 1
    return bytes(flagged)


def read(content: bytes, size: int) -> tuple[str, list[str]]:
    encodings: list[str] = []
    chunks = (content[start : start + size] for start in range(0, len(content), size))
    return b"".join(sql_of(chunks, "shop.sql", encodings.append)).decode(), encodings


@pytest.mark.parametrize("size", [1, 7, 512, 1 << 16])
@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_read_in_chunks_of_any_size(size: int, tar_format: int) -> None:
    members = {"d/README.md": b"x" * 512, "d/shop.sql": SQL.encode(), "d/after.txt": b"y" * 1000}
    assert read(tar_of(members, tar_format), size) == (SQL, [])


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_read_with_and_without_its_mark(size: int, encoding: str) -> None:
    text, encodings = read(SQL.encode(encoding), size)
    assert text == SQL
    assert encodings == [encoding.upper() if "-" in encoding[5:] else "UTF-16-LE"]


def test_what_was_utf_16_is_noted() -> None:
    left_out = LeftOut()
    remaining = DumpFilter("shop", left_out).filtered(sql_of([SQL.encode("utf-16")], "a.sql", left_out.recode))
    assert b"".join(remaining).decode() == SQL
    (note,) = left_out.notes()
    assert "UTF-16-LE" in note


def test_a_zip_in_utf_16() -> None:
    members = {"__MACOSX/._shop.sql": b"\0", "shop.sql": SQL.encode("utf-16")}
    chunks = zip_of_sql(io.BytesIO(zip_with(members)), "shop.zip")
    assert b"".join(sql_of(chunks, "shop.zip", lambda _encoding: None)).decode() == SQL


def test_a_line_with_a_delimiter_loses_its_cr() -> None:
    """A client in binary mode may take it for a part of the delimiter, which then never comes."""
    sql = b"DELIMITER ;;\r\nCREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1;;\r\nDELIMITER ;\r\n"
    passed = b"".join(DumpFilter("shop", LeftOut()).filtered([sql]))
    assert b"DELIMITER ;;\n" in passed
    assert b"DELIMITER ;\n" in passed


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    "content",
    [SQL.encode(), SQL.encode("utf-16"), SQL.encode("utf-8-sig"), tar_of({"shop.sql": SQL.encode()})],
    ids=["utf-8", "utf-16", "with a mark", "tar"],
)
def test_a_plan_accepts_what_a_load_reads(tmp_path: Path, pack: type[bytes], content: bytes) -> None:
    file = tmp_path / "dump"
    file.write_bytes(pack(content))
    check_sql_file(file)


TWO = {"monday.sql": b"SELECT 1;", "tuesday.sql": b"SELECT 2;"}
REFUSED = {
    "empty": (b"", "an empty file"),
    "cut gzip": (gzip.compress(SQL.encode() * 100)[:90], "damaged"),
    "cut xz": (lzma.compress(SQL.encode())[:60], "damaged"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + b"x" * 600, "a 7z archive"),
    "RAR": (b"Rar!\x1a\7\1\0", "a RAR archive"),
    "pg_dump -Fc": (b"PGDMP\1\x0e\0" + b"x" * 99, "a dump of PostgreSQL"),
    "gzip of SQLite": (gzip.compress(b"SQLite format 3\0" + b"\1" * 99), "a database of SQLite"),
    "binary log": (b"\xfebin" + b"\0\1" * 99, "a binary log"),
    "xtrabackup": (b"XBSTCK01" + b"x" * 99, "a stream of xtrabackup"),
    "ibd": (bytes(4096), "no text"),
    "zip of two": (zip_with(TWO), "not one file of SQL"),
    "zip without SQL": (zip_with({"photo.png": b"x"}), "not one file of SQL"),
    "zip with a password": (with_password(zip_with({"shop.sql": b"SELECT 1;"})), "with a password"),
    "cut zip": (zip_with(TWO)[:-30], "a damaged zip archive"),
    "tar of two": (tar_of(TWO), "not one file of SQL"),
    "tar.gz of two": (gzip.compress(tar_of(TWO)), "not one file of SQL"),
    "tar of mydumper": (tar_of({"d/metadata": b"", "d/shop.t-schema.sql": b"", "d/shop.t.sql": b""}), "not one"),
    "tar without SQL": (tar_of({"ibdata1": b"x"}), "not one file of SQL"),
    "cut tar": (tar_of({"README": b"x" * 5000, "shop.sql": b"SELECT 1;"})[:3000], "a damaged tar archive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_refuses_what_is_no_sql_and_says_what_it_is(tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    file = tmp_path / "dump.sql"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message) as refused:
        check_sql_file(file)
    assert refused.value.next_step
    assert "dump.sql" in str(refused.value)


def test_the_members_of_an_archive_are_the_evidence(tmp_path: Path) -> None:
    file = tmp_path / "week.tgz"
    file.write_bytes(gzip.compress(tar_of(TWO)))
    with pytest.raises(UsageError) as refused:
        check_sql_file(file)
    assert refused.value.evidence == "it has monday.sql, tuesday.sql"


def test_a_header_that_claims_gibibytes_takes_no_memory(tmp_path: Path) -> None:
    """A PAX header may claim any size; what packed it makes them of nothing."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30
    file = tmp_path / "bomb.tar.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(160):
            packed.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="a damaged tar archive"):
            check_sql_file(file)
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()
