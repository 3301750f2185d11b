"""What MySQL 9.7 and MariaDB 10.11 print for one thing is one text, and any change in it makes another."""

from __future__ import annotations

import re

import pytest

from volbench.validation.catalog.sql_text import UNPARSED, normal_expression, normal_query

QUERIES = (
    (
        "select `a`.`id` AS `id` from `w`.`a` where ((`a`.`n` > 3) and ((`a`.`s` = 'x') or (`a`.`s` <> 'y')))",
        "select `a`.`id` AS `id` from `w`.`a` where `a`.`n` > 3 and (`a`.`s` = 'x' or `a`.`s` <> 'y')",
    ),
    (
        "select ((`a`.`n` + 1) * 2) AS `x`,(`a`.`n` % 3) AS `md`,lower(`a`.`s`) AS `lo`,(0 = `a`.`flag`) AS `nf`,"
        "regexp_like(`a`.`s`,'^a') AS `re`,week(`a`.`d`,0) AS `w`,true AS `t`,0x41 AS `h` from `w`.`a`",
        "select (`a`.`n` + 1) * 2 AS `x`,`a`.`n` MOD 3 AS `md`,lcase(`a`.`s`) AS `lo`,`a`.`flag` = 0 AS `nf`,"
        "`a`.`s` regexp '^a' AS `re`,week(`a`.`d`) AS `w`,1 AS `t`,X'41' AS `h` from `w`.`a`",
    ),
    (
        "select `a`.`n` AS `n`,sum(`b`.`v`) AS `total` from (`w`.`a` left join `w`.`b` on(((`b`.`i` = `a`.`i`) and "
        "(`b`.`v` > 0)))) where ((not((`a`.`s` like 'b%'))) and exists(select 1 from `w`.`b` where (`b`.`v` = 2))) "
        "group by `a`.`n` having (`total` > 2) order by `total` desc limit 10",
        "select `a`.`n` AS `n`,sum(`b`.`v`) AS `total` from (`w`.`a` left join `w`.`b` on(`b`.`i` = `a`.`i` and "
        "`b`.`v` > 0)) where `a`.`s`  not like 'b%' and exists(select 1 from `w`.`b` where `b`.`v` = 2 limit 1) "
        "group by `a`.`n` having `total` > 2 order by sum(`b`.`v`) desc limit 10",
    ),
    (
        "select `a`.`id` AS `id` from `w`.`a` union select `b`.`id` AS `id` from `w`.`b` union select 1 AS `1`",
        "select `a`.`id` AS `id` from `w`.`a` union all select `b`.`id` AS `id` from `w`.`b` union select 1 AS `1`",
    ),
    (
        "select rollup_group_item(`a`.`s`,0) AS `s`,rollup_sum_switcher(max(length(`a`.`s`))) AS `l`,"
        "first_value(`a`.`n`) OVER `q` AS `f` from `w`.`a` group by `a`.`s` with rollup "
        "window `q` AS (PARTITION BY `a`.`s` ORDER BY `a`.`id` ) ",
        "select `a`.`s` AS `s`,max(octet_length(`a`.`s`)) AS `l`,"
        "first_value(`a`.`n`) over ( partition by `a`.`s` order by `a`.`id`) AS `f` from `w`.`a` "
        "group by `a`.`s` with rollup",
    ),
)
EXPRESSIONS = (
    ("concat(upper(`s`),_utf8mb4\\'-\\',_utf8mb4\\'O\\\\\\'K\\')", "concat(ucase(`s`),'-','O\\'K')"),
    ("((`n` > 0) and ((`n` < 100) or (`s` = _utf8mb4\\'Ã¼\\')))", "`n` > 0 and (`n` < 100 or `s` = 'ü')"),
    ("if(((`n` > 3) and (0 <> `flag`)),(`n` DIV 2),(`n` << 2))", "if(`n` > 3 and `flag` <> 0,`n` DIV 2,`n` << 2)"),
    ("(-(`n`) / 3.5)", "-`n` / 3.5"),
)


@pytest.mark.parametrize(("mysql", "mariadb"), QUERIES)
def test_one_view_in_two_prints_is_one_text(mysql: str, mariadb: str) -> None:
    assert normal_query(mysql) == normal_query(mariadb)
    assert not normal_query(mysql).startswith(UNPARSED)


@pytest.mark.parametrize(("mysql", "mariadb"), EXPRESSIONS)
def test_one_expression_in_two_prints_is_one_text(mysql: str, mariadb: str) -> None:
    assert normal_expression(mysql) == normal_expression(mariadb)
    assert not normal_expression(mysql).startswith(UNPARSED)


@pytest.mark.parametrize("text", [query for pair in QUERIES[:3] for query in pair])
def test_every_other_value_name_or_operation_makes_another_text(text: str) -> None:
    """Each literal, name and operator is replaced in turn; names of what nobody refers to are names too."""
    base, tried = normal_query(text), 0
    swaps = {
        " and ": " or ",
        " or ": " and ",
        " > ": " >= ",
        " <> ": " = ",
        "left join": "join",
        " desc": "",
        "sum(": "avg(",
        " + ": " - ",
        " * ": " / ",
        "exists": "not exists",
        " limit 10": " limit 11",
    }
    for result in re.finditer(r"'[^']*'|(?<![\w`])\d+\b|`[^`]*`|" + "|".join(map(re.escape, swaps)), text):
        piece = result[0]
        second = swaps.get(piece) or ("'zz'" if piece[0] == "'" else "`zz`" if piece[0] == "`" else "77")
        second = "" if piece == " desc" else second
        changed = text[: result.start()] + second + text[result.end() :]
        if (
            not text[: result.start()].endswith("week(`a`.`d`,")
            and "limit 1)" not in text[result.start() - 6 :][:8]
        ):
            assert normal_query(changed) != base, changed
            tried += 1
    assert tried > 10


def test_what_cannot_be_parsed_is_kept_and_marked() -> None:
    assert normal_query("select from where") == f"{UNPARSED}select from where"
    assert normal_expression("") == ""
