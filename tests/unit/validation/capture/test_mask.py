"""A masked log keeps times, connections, shapes and which values are equal, and none of the values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from slow_log_writer import Shop, read_slow_log, slow_log
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.core.sql.fingerprint import fingerprint
from volbench.validation.capture.mask import masked, masked_sql

KEY = b"k" * 32


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_only_the_values_and_users_are_gone(flavor: str) -> None:
    shop = Shop(statements=300, flavor="mysql" if flavor == "mysql" else "mariadb")
    before = list(read_slow_log(slow_log(shop), name="log"))
    text = list(masked(before, key=KEY))
    after = list(read_slow_log("".join(text).splitlines(), name="masked"))
    for item, alternative in zip(before, after, strict=True):
        assert (item.at_s, item.connection, item.schema) == (
            alternative.at_s,
            alternative.connection,
            alternative.schema,
        )
        assert item.query_s == pytest.approx(alternative.query_s, abs=1e-6)
        assert fingerprint(item.sql) == fingerprint(alternative.sql)
    assert "colour" not in "".join(text)


@given(secret=some.text(alphabet="abcdefghijkmnopq ", min_size=6, max_size=30).filter(lambda text: text.strip()))
def test_no_text_of_a_literal_or_comment_survives(secret: str) -> None:
    term = f"zz{secret}zz"
    pieces = f"'a{term}', \"{term}\" /* {term} */", f"x = '{term}' AND y = '{term}' -- {term}"
    sql = " ".join(("SELECT", pieces[0], "FROM t WHERE", pieces[1]))
    result = masked_sql(sql, KEY)
    assert result is not None
    assert "zz" not in result
    first, second = (result.split(f"{name} = ")[1].split(" ")[0] for name in ("x", "y"))
    assert first == second


@given(number=some.integers(0, 10**18), key=some.binary(min_size=32, max_size=32))
def test_numbers_keep_their_number_of_digits(number: int, key: bytes) -> None:
    result = masked_sql(" ".join(("SELECT * FROM t1 WHERE id =", str(number))), key)
    assert result is not None
    assert result.startswith("SELECT * FROM t1 WHERE id = ")
    assert len(result.rpartition(" ")[2]) == len(str(number))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a # b', 'secret'",
        "SELECT 'a -- b', 'secret'",
        "SELECT '/*', 'secret', '*/'",
        'SELECT "a # \'secret"',
        "SELECT 1 FROM t WHERE x = 'secret that was cut",
        "SELECT 'it''s secret'",
        "SELECT 'a\\'secret'",
        "/* secret",
        "SELECT `a'b`, 'secret'",
    ],
)
def test_what_looks_like_a_comment_in_a_literal_hides_nothing(sql: str) -> None:
    assert "secret" not in (masked_sql(sql, KEY) or "")
    assert "secret" not in str(masked_sql(sql, KEY, sql_mode=""))
    assert "secret" not in fingerprint(sql)


def test_a_text_that_is_no_utf_8_is_left_out_where_its_character_set_decides() -> None:
    """In GBK the byte before the quote takes the backslash or the quote's escape to itself."""
    assert masked_sql("SELECT '\udcbf\\' AND a = 'secret'", KEY) is None
    result = masked_sql("SELECT '\udcbf\udcbf', 'secret'", KEY)
    assert result is not None
    assert "secret" not in result


@pytest.mark.parametrize(
    ("sql", "sql_mode"),
    [
        (r"SELECT 'a\' AND b = 'secret'", "NO_BACKSLASH_ESCAPES"),
        (r"SELECT 'a\'secret'", ""),
        (r"INSERT INTO t VALUES ('C:\', 'secret'), ('D:\', 'secret')", "NO_BACKSLASH_ESCAPES"),
        (r'SELECT "a\", "secret"', "NO_BACKSLASH_ESCAPES"),
        (r"""SELECT "a\", 'secret'""", "ANSI_QUOTES"),
    ],
)
def test_what_a_backslash_hides_depends_on_the_mode(sql: str, sql_mode: str) -> None:
    """Without the mode such a statement is left out; with it the literal is masked whole."""
    assert masked_sql(sql, KEY) is None
    result = masked_sql(sql, KEY, sql_mode=sql_mode)
    assert result is not None
    assert "secret" not in result
    wrong = masked_sql(r"SELECT 'it\\', 'secret'", KEY)
    assert wrong is not None
    assert "secret" not in wrong


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT /*+ MAX_EXECUTION_TIME(1000) BKA(t1) */ 1",
            r"SELECT /\*\+MAX_EXECUTION_TIME\(\d{4}\) BKA\(t1\) \*/ \d",
        ),
        ("SELECT /*+ secret */ 1", r"SELECT +\d"),
        ("SELECT 1 /*+ BKA(secret) */", r"SELECT \d"),
        ("SELECT /*!50000 STRAIGHT_JOIN */ a FROM t", r"SELECT /\*!50000 +STRAIGHT_JOIN +\*/ a FROM t"),
        ("SELECT /*!50000 'secret' */ a", r"SELECT /\*!50000 +'[0-9a-f]{8}' +\*/ a"),
        ("SELECT /*M! 1 */ a", r"SELECT /\*M! +\d +\*/ a"),
        ("SELECT x'4D4E', 0xFFee, b'0101', 0b11", r"SELECT x'[0-9a-f]{4}', 0x[0-9a-f]{4}, b'[01]{4}', 0b[01]{2}"),
        ("SELECT _utf8mb4'secret', N'secret'", r"SELECT _utf8mb4'[0-9a-f]{8}', N'[0-9a-f]{8}'"),
        ("SELECT DATE'2020-01-02', {d '2020-01-02'}", r"SELECT DATE'\d{4}-\d\d-\d\d', {d '\d{4}-\d\d-\d\d'}"),
        ("SELECT '2020-01-02 03:04:05.678'", r"SELECT '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}'"),
        ("SELECT 1e5, 1.50, .5, 5--3", r"SELECT \de\d, \d\.\d\d, \.\d, \d--\d"),
        ("SELECT 1a, t2.3b, a$4, @v5, `6` FROM t7", r"SELECT 1a, t2\.3b, a\$4, @v5, `6` FROM t7"),
        ("SELECT CAST(a AS DECIMAL(10,2)), NOW(6)", r"SELECT CAST\(a AS DECIMAL\(10,2\)\), NOW\(6\)"),
        ("SELECT \"secret\", 'it''s secret'", r"SELECT \"[0-9a-f]{8}\", '[0-9a-f]{8}'"),
        ("SELECT `cut secret", r"SELECT `masked`"),
        ("SELECT 'cut secret", r"SELECT '[0-9a-f]{8}'"),
    ],
)
def test_every_form_of_a_literal_keeps_its_form(sql: str, expected: str) -> None:
    assert re.fullmatch(expected, masked_sql(sql, KEY) or "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT /*!99999 secret */ 1",
        "SELECT /*!50000 1",
        "SELECT 1 */ 2",
        "SELECT $$ secret $$",
        "SELECT $tag$ secret $tag$",
        "SELECT /*!50000 /*!50000 1 */ */",
    ],
)
def test_what_other_versions_read_differently_is_left_out(sql: str) -> None:
    assert masked_sql(sql, KEY) is None


@pytest.mark.parametrize(
    "sql", ["SELECT 1 FROM t WHERE a = \u2018Smith\u2019", "SELECT \u201cSmith\u201d", "SELECT \u00abSmith\u00bb"]
)
def test_a_value_in_typographic_quotes_is_left_out(sql: str) -> None:
    """A server takes it for a name and logs the statement with its error; in a literal such quotes are text."""
    assert masked_sql(sql, KEY) is None
    assert masked_sql("SELECT 'it\u2019s'", KEY) is not None


def test_the_command_says_how_many_statements_it_left_out(tmp_path: Path) -> None:
    """And that --sql-mode keeps them."""
    log = tmp_path / "slow.log"
    lines = "".join(slow_log(Shop(statements=5)))
    log.write_text(lines.rstrip("\n").rpartition("\n")[0] + "\nSELECT 'a\\' AND b = 'secret';\n")
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    ended = CliRunner().invoke(app, ["capture", str(first), "--from", str(log), "--mask"])
    assert "server settings: 1 statement" in ended.output
    assert len(list(read_slow_log(first.read_text().splitlines(), name="m"))) == 4
    mode = ["--sql-mode", "NO_BACKSLASH_ESCAPES"]
    assert CliRunner().invoke(app, ["capture", str(second), "--from", str(log), "--mask", *mode]).exit_code == 0
    assert len(list(read_slow_log(second.read_text().splitlines(), name="m"))) == 5
    assert "secret" not in first.read_text() + second.read_text()


def test_the_command_writes_a_private_file_and_never_over_another(tmp_path: Path) -> None:
    log, out = tmp_path / "slow.log", tmp_path / "masked.log"
    log.write_text("".join(slow_log(Shop(statements=20))))
    assert CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--mask"]).exit_code == 0
    assert len(list(read_slow_log(out.read_text().splitlines(), name="m"))) == 20
    assert out.stat().st_mode & 0o077 == 0
    again = CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--mask"])
    assert "already exists" in str(again.exception)
    unmasked = CliRunner().invoke(app, ["capture", str(tmp_path / "x"), "--from", str(log)])
    assert "--from needs --mask" in str(unmasked.exception)
