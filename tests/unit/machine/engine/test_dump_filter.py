"""Statements of a dump: divided as the clients do it, and without what is not for an account of one schema."""

from __future__ import annotations

import re

import pytest

from volbench.errors import UsageError
from volbench.machine.engine.own_data.dump_filter import DumpFilter, LeftOut
from volbench.machine.engine.own_data.mydumper import dump_files, end_statements_at_lines
from volbench.machine.engine.own_data.statements import Statements

SQL = rb"""/*M!999999\- enable the sandbox mode */
-- it's; a comment
--
# another; one
/* block ; ' */
CREATE TABLE t (a int) /* ; */ COMMENT 'x;''y\';z';
/*!50003 CREATE*/ /*!50017 DEFINER=`a;b`@`c`*/ /*!50003 TRIGGER t1 */;
DELIMITER ;;
CREATE PROCEDURE p() BEGIN SELECT 1; SELECT "a;;b"; -- hm;;
 SELECT 2--1; END ;;
delimiter ;
INSERT INTO t VALUES (1,'a
b;c'),(2,-3),(4/2),(5 - -1);
select 1; select 2;
SET sql_mode='ANSI,NO_BACKSLASH_ESCAPES';
SELECT 'a\'; SELECT 'b';"""
STARTS = [
    b"/*M!999999",
    b"/*!50003 CREATE*/",
    b"DELIMITER ;;",
    b"CREATE PROCEDURE",
    b"delimiter ;",
    b"INSERT",
    b"select 1",
    b"select 2",
    b"SET sql_mode",
    rb"SELECT 'a\';",
    b"SELECT 'b';",
]


def chunked(text: bytes, size: int) -> list[bytes]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def divided(text: bytes, size: int) -> list[bytes]:
    statements, current = [], b""
    for piece in Statements().pieces(chunked(text, size)):
        current += piece.text
        if piece.last or piece.command:
            statements.append(current)
            current = b""
    assert b"".join([*statements, current]) == text
    return [statement for statement in statements if statement.strip()]


def filtered(text: bytes, schema: str = "shop", size: int = 1 << 20) -> tuple[bytes, LeftOut]:
    left_out = LeftOut()
    return b"".join(DumpFilter(schema, left_out).filtered(chunked(text, size))), left_out


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
def test_statements_end_where_the_clients_end_them(size: int) -> None:
    """However the text is divided into chunks."""
    statements = [statement.strip() for statement in divided(SQL, size)]
    assert len(statements) == len(STARTS)
    assert all(map(bytes.startswith, statements, STARTS)), statements


def test_a_long_line_is_divided_without_an_end_of_line() -> None:
    """As an INSERT with a BLOB: escapes, quotes and delimiters at each place of the chunks."""
    row = rb"('it\'s;','\\','a''b;'),"
    text = b"INSERT INTO t VALUES " + row * 3000 + b"(1);" + b"INSERT INTO t VALUES (2);"
    for size in (4096, 4097, 4099, 4101):
        assert [statement[-4:] for statement in divided(text, size)] == [b"(1);", b"(2);"]


@pytest.mark.parametrize("filling", [b"\\\\", b"''", b"-", b"/*", b'"', b"`", b";", b"\\'"])
def test_no_filling_of_a_string_confuses_or_takes_memory(filling: bytes) -> None:
    """Runs of escapes and quotes over many chunks of each parity."""
    text = b"SELECT '" + filling * 20_000 + b"'; SELECT 2;"
    for size in (4096, 5001, 65536):
        statements = divided(text, size)
        assert [statement[-2:] for statement in statements] == [b"';", b"2;"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE DEFINER=`root`@`localhost` PROCEDURE p() SELECT 1;",
        "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER t BEFORE INSERT ON t "
        "FOR EACH ROW SET @a=1*/;",
        "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`a``b`@`c` SQL SECURITY DEFINER */\n"
        "/*!50001 VIEW v AS select 1 */;",
        "create or replace DEFINER = 'x' @ 'y' sql security invoker view v as select 1;",
        "CREATE DEFINER=app@10.0.0.% FUNCTION f() RETURNS INT RETURN 1;",
        "ALTER DEFINER=CURRENT_USER() EVENT e DISABLE;",
    ],
)
def test_definers_become_the_loading_account(statement: str) -> None:
    text, left_out = filtered(statement.encode())
    definer = re.compile(r"DEFINER *= *(\S+ @ \S+|[^ *]+)")
    assert text.decode() == definer.sub("DEFINER=CURRENT_USER", statement, count=1)
    assert left_out.definers == 1


@pytest.mark.parametrize(
    "statement",
    [
        b"INSERT INTO t VALUES ('CREATE DEFINER=`root`@`localhost` VIEW');",
        b"CREATE TABLE t (a INT COMMENT 'DEFINER=`root`@`localhost`');",
        b"SELECT '\nCREATE DEFINER=`root`@`localhost` PROCEDURE p() SELECT 1;\n';",
    ],
)
def test_data_are_passed_on_as_they_are(statement: bytes) -> None:
    text, left_out = filtered(statement)
    assert text == statement
    assert left_out.notes() == ()


OF_THE_SERVER = (
    b"SET @@SESSION.SQL_LOG_BIN= 0;",
    b"SET @@SESSION.SQL_LOG_BIN = @MYSQLDUMP_TEMP_LOG_BIN;",
    b"SET SQL_LOG_BIN=0;",
    b"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,\n4e11:1-3';",
    b"SET GLOBAL gtid_slave_pos='0-1-2';",
    b"CHANGE MASTER TO MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=157;",
    b"CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.1', SOURCE_LOG_POS=157;",
    b"/*! FLUSH PRIVILEGES */ ;",
    b"/*!50606 SET GLOBAL INNODB_STATS_AUTO_RECALC=OFF */;",
)


@pytest.mark.parametrize("statement", OF_THE_SERVER)
def test_what_a_dump_says_of_its_server_is_left_out_and_counted(statement: bytes) -> None:
    """The lines stay, for the client's numbers of lines."""
    text, left_out = filtered(b"SELECT 1;\n" + statement + b"\nSELECT 2;\n")
    assert text == b"SELECT 1;\n" + b"\n" * statement.count(b"\n") + b"\nSELECT 2;\n"
    assert sum(left_out.kinds.values()) == 1
    (note,) = left_out.notes()
    assert note.startswith("left out of the dump: ")


@pytest.mark.parametrize(
    "statement",
    [
        b"SET SQL_LOG_BIN=0, GLOBAL general_log_file='/x';",
        b"SET SQL_LOG_BIN=(SELECT 1);",
        b"SET GLOBAL general_log_file='/x';",
        b"GRANT ALL ON *.* TO x;",
        b"INSTALL PLUGIN x SONAME 'x.so';",
    ],
)
def test_any_other_statement_is_the_servers_to_refuse(statement: bytes) -> None:
    assert filtered(statement + b"\nSELECT 1;")[0] == statement + b"\nSELECT 1;"


def test_of_a_dump_of_all_schemas_one_is_loaded() -> None:
    """As mysqldump --all-databases divides them, by USE."""
    dump = (
        b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n"
        b"USE `mysql`;\nDROP TABLE IF EXISTS `user`;\nDELIMITER ;;\nCREATE PROCEDURE p() BEGIN END ;;\n"
        b"DELIMITER ;\n"
        b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;\nUSE `shop`;\nCREATE TABLE t (id INT);\n"
        b"/*!40000 DROP DATABASE IF EXISTS `other`*/;\nCREATE DATABASE `other`;\nUSE `other`;\n"
        b"CREATE TABLE o (id INT);\n"
        b"USE `shop`;\nCREATE VIEW v AS SELECT 1;\n"
    )
    text, left_out = filtered(dump)
    assert (
        text.split()
        == (
            b"DELIMITER ;; DELIMITER ; CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`; USE `shop`; CREATE TABLE t "
            b"(id INT); USE `shop`; CREATE VIEW v AS SELECT 1;"
        ).split()
    )
    assert text.count(b"\n") == dump.count(b"\n")
    assert left_out.kinds == {"the schema mysql": 4, "the schema other": 4}
    with pytest.raises(UsageError, match="the dump has no schema third") as refused:
        filtered(dump, "third")
    assert refused.value.evidence == "its schemas are mysql, shop, other"


def test_mydumpers_programs_end_at_lines() -> None:
    """Its dump has no delimiter of the client's; it separates `;` and line break inside a body by a blank."""
    text = b"".join(end_statements_at_lines([b"CREATE PROCEDURE p() BEGIN\nSELECT 1; \nEND;\nSELECT 2;\n"]))
    assert len(divided(text, 1 << 20)) == 3
    own = b"DELIMITER ;;\nCREATE PROCEDURE p() BEGIN\nSELECT 1;\nEND;;\n"
    assert b"".join(end_statements_at_lines([own])) == own


def test_mydumpers_files_have_their_order() -> None:
    names = (
        "shop-schema-create.sql",
        "shop-schema-post.sql",
        "shop.a-schema.sql",
        "shop.a.sql.gz",
        "shop.b.00000.sql.zst",
        "shop.b-schema-triggers.sql",
        "shop.v-schema-view.sql",
        "shop.v-schema.sql",
        "other.a.sql",
        "metadata",
        "shop.a-metadata",
    )
    files = dump_files(frozenset(names), "shop")
    assert files[""] == ["shop.a.sql.gz", "shop.b.00000.sql.zst"]
    assert files["-schema"] == ["shop.a-schema.sql", "shop.v-schema.sql"]
    assert [name for kind in ("-schema-post", "-schema-triggers", "-schema-view") for name in files[kind]] == [
        "shop-schema-post.sql",
        "shop.b-schema-triggers.sql",
        "shop.v-schema-view.sql",
    ]
    with pytest.raises(UsageError, match="rows in files that are no SQL"):
        dump_files(frozenset({"shop.a.00000.dat"}), "shop")


@pytest.mark.parametrize(
    "lead",
    [
        b"mysqldump: [Warning] Using a password on the command line interface can be insecure.\n",
        b"Warning: Using a password on the command line interface can be insecure.\n",
        b"/usr/bin/mysqldump: [Warning] A partial dump; it's a 'warning'.\nWarning: more\n",
    ],
)
def test_warnings_of_the_program_before_a_dump_are_left_out_and_told(lead: bytes) -> None:
    left_out = LeftOut()
    dump = lead + b"-- MySQL dump\nCREATE TABLE t (a int);\n"
    filtered = b"".join(DumpFilter("shop", left_out).filtered([dump[:7], dump[7:]]))
    assert filtered.count(b"\n") == dump.count(b"\n")
    assert filtered.lstrip() == b"-- MySQL dump\nCREATE TABLE t (a int);\n"
    assert left_out.kinds["the warnings of its program before it"] == 1


def test_a_text_that_only_quotes_a_warning_stays() -> None:
    dump = b"-- it says\nINSERT INTO t VALUES ('\nmysqldump: [Warning] Using a password\n');\n"
    assert b"".join(DumpFilter("shop", LeftOut()).filtered([dump])) == dump
