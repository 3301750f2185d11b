"""A masked log keeps times, connections, shapes and which values are equal, and none of the values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from slow_log_writer import Shop, slow_log
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.validation.fingerprint import fingerprint
from volbench.validation.mask import masked, masked_sql
from volbench.validation.slowlog import read_slow_log

KEY = b"k" * 32


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_only_the_values_and_users_are_gone(flavor: str) -> None:
    shop = Shop(statements=300, flavor="mysql" if flavor == "mysql" else "mariadb")
    before = list(read_slow_log(slow_log(shop), name="log"))
    text = list(masked(before, key=KEY))
    after = list(read_slow_log("".join(text).splitlines(), name="masked"))
    for one, other in zip(before, after, strict=True):
        assert (one.at_s, one.connection, one.schema) == (other.at_s, other.connection, other.schema)
        assert one.query_s == pytest.approx(other.query_s, abs=1e-6)
        assert fingerprint(one.sql) == fingerprint(other.sql)
    assert "colour" not in "".join(text)


@given(secret=some.text(alphabet="abcdefghijkmnopq ", min_size=6, max_size=30).filter(lambda text: text.strip()))
def test_no_text_of_a_literal_or_comment_survives(secret: str) -> None:
    word = f"zz{secret}zz"
    parts = f"'a{word}', \"{word}\" /* {word} */", f"x = '{word}' AND y = '{word}' -- {word}"
    sql = " ".join(("SELECT", parts[0], "FROM t WHERE", parts[1]))
    found = masked_sql(sql, KEY)
    assert "zz" not in found
    first, second = (found.split(f"{name} = ")[1].split(" ")[0] for name in ("x", "y"))
    assert first == second


@given(number=some.integers(0, 10**18), key=some.binary(min_size=32, max_size=32))
def test_numbers_keep_their_number_of_digits(number: int, key: bytes) -> None:
    found = masked_sql(" ".join(("SELECT * FROM t1 WHERE id =", str(number))), key)
    assert found.startswith("SELECT * FROM t1 WHERE id = ")
    assert len(found.rpartition(" ")[2]) == len(str(number))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a # b', 'secret'", "SELECT 'a -- b', 'secret'", "SELECT '/*', 'secret', '*/'",
        "SELECT \"a # 'secret\"",
        "SELECT 1 FROM t WHERE x = 'secret that was cut", "SELECT 'it''s secret'", "SELECT 'a\\'secret'",
        "/* secret",
        "SELECT `a'b`, 'secret'",
    ],
)  # fmt: skip
def test_what_looks_like_a_comment_in_a_literal_hides_nothing(sql: str) -> None:
    assert "secret" not in masked_sql(sql, KEY)
    assert "secret" not in fingerprint(sql)


def test_the_command_writes_a_private_file_and_never_over_another(tmp_path: Path) -> None:
    log, out = tmp_path / "slow.log", tmp_path / "masked.log"
    log.write_text("".join(slow_log(Shop(statements=20))))
    assert CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--mask"]).exit_code == 0
    assert len(list(read_slow_log(out.read_text().splitlines(), name="m"))) == 20
    assert out.stat().st_mode & 0o077 == 0
    again = CliRunner().invoke(app, ["capture", str(out), "--from", str(log), "--mask"])
    assert "is there already" in str(again.exception)
    unmasked = CliRunner().invoke(app, ["capture", str(tmp_path / "x"), "--from", str(log)])
    assert "only --mask" in str(unmasked.exception)
