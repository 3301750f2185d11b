"""A schema of what MySQL and MariaDB print in other words, and faults to plant in it, in SQL that both take."""

# ruff: noqa: E501 - statements of a test, each in one line

from __future__ import annotations

SCHEMA = "printed"
SESSION = (
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
)
VIEWS: tuple[str, ...] = (
    "SELECT * FROM a WHERE n > 3 AND (s = 'x' OR s <> 'y') AND d >= '2020-01-01'",
    "SELECT a.s, COUNT(*) c, SUM(b.v) total, AVG(price) FROM a JOIN b ON b.a_id = a.id GROUP BY a.s HAVING c > 2 "
    "ORDER BY total DESC LIMIT 10",
    "SELECT a.id FROM a LEFT JOIN b ON a.id = b.a_id AND b.v > 0 WHERE b.id IS NULL",
    "SELECT id, (n + 1) * 2 AS x, n + 1 * 2 AS y, CASE WHEN n > 3 THEN 'big' WHEN n IS NULL THEN 'none' "
    "ELSE 'small' END size FROM a",
    "SELECT id FROM a WHERE id IN (SELECT a_id FROM b WHERE v BETWEEN 1 AND 9) "
    "OR EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id)",
    "SELECT id, n FROM a UNION ALL SELECT id, v FROM b UNION SELECT 1, 2",
    "SELECT id, NOW() t, CURDATE() c, DATE_FORMAT(d, '%Y-%m') f, d + INTERVAL 1 DAY nxt, DATE_SUB(d, INTERVAL 2 HOUR) p, "
    "IFNULL(s, 'it''s') i, CAST(n AS CHAR) cc, CAST(n AS SIGNED) cs, CAST(price AS DECIMAL(8,1)) cd FROM a",
    "SELECT s, GROUP_CONCAT(DISTINCT n ORDER BY n DESC SEPARATOR ';') g, STD(n) sd, MAX(LENGTH(s)) l FROM a "
    "GROUP BY s WITH ROLLUP",
    "WITH t AS (SELECT id, n FROM a WHERE n > 1) SELECT t.id, ROW_NUMBER() OVER (PARTITION BY t.n ORDER BY t.id) rn, "
    "RANK() OVER (ORDER BY t.n DESC) r FROM t",
    "SELECT id, NOT flag nf, !(n = 3) x, n XOR flag y, -n neg, ~n inv, n DIV 2 dv, n % 3 md, n & 1 an, LOWER(s) lo, "
    "UCASE(s) up, SUBSTRING(s, 1, 3) su, TRUE t, FALSE f, s LIKE 'a%' lk, s REGEXP '^a' re, "
    "s COLLATE utf8mb4_bin co, BINARY s bi FROM a",
    "SELECT x.id FROM (SELECT id, n FROM a WHERE n < 5) x CROSS JOIN b USING (id) WHERE NOT (x.n > 1 AND b.v < 2)",
    "SELECT DISTINCT a.id, (SELECT MAX(v) FROM b WHERE b.a_id = a.id) m FROM a STRAIGHT_JOIN b ORDER BY 1 LIMIT 3, 5",
    "SELECT a.id, b.id bid, c.id cid FROM a JOIN b ON a.id = b.a_id LEFT JOIN (b c JOIN a e ON c.id = e.id) "
    "ON c.a_id = b.id",
    "SELECT id, TIMESTAMPDIFF(DAY, d, '2024-01-01') td, EXTRACT(YEAR FROM d) ey, WEEK(d) w, LPAD(s, 5, '0') lp, "
    "JSON_EXTRACT(j, '$.a') je, ROUND(price, 1) ro, MOD(n, 2) mo, INSTR(s, 'a') ins, CONVERT(s USING latin1) cv FROM a",
    "SELECT id FROM a WHERE n = 1 AND id > ALL (SELECT id FROM b) AND (id, n) IN (SELECT id, v FROM b) "
    "AND s NOT IN ('a', 'b') AND s NOT LIKE 'b%' AND n NOT BETWEEN 1 AND 2 AND n IS NOT NULL AND n <=> 3",
    "SELECT 'lit \"q\" \\\\ back' AS l, x'41' hx, 1.50 dec1, 1e3 fl, DATE '2024-01-01' dl, 'ü' um, '' em, NULL nu FROM a",
    "SELECT id, FIRST_VALUE(n) OVER w f, SUM(n) OVER (PARTITION BY s ORDER BY id ROWS BETWEEN 1 PRECEDING AND "
    "CURRENT ROW) su FROM a WINDOW w AS (PARTITION BY s ORDER BY id)",
    "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5) SELECT i FROM c",
    "SELECT COUNT(DISTINCT n, s) cd, SUM(IF(n > 1, 1, 0)) si FROM a WHERE d > NOW() - INTERVAL 7 DAY "
    "AND (n + 2) * 3 - 1 > 4 / (2 + n) AND flag",
)
STATEMENTS: tuple[str, ...] = (
    *SESSION,
    f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    f"USE {SCHEMA}",
    "CREATE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(40), d DATETIME, j LONGTEXT, price DECIMAL(10,2), "
    "flag TINYINT(1), word VARCHAR(20) DEFAULT 'F(x) it''s', "
    "CONSTRAINT low CHECK (n > 0 AND (n < 100 OR s = 'it''s')), "
    "CONSTRAINT named CHECK (s IN ('x', 'ü') OR s LIKE 'a%'), CHECK (char_length(s) <= 30 AND NOT (n = 5)), "
    "CHECK (s REGEXP '^[a-z]+$' OR s = 'a\\\\b' OR s = '\"'), "
    "g1 INT AS ((n + 1) * 2) STORED, g2 VARCHAR(50) AS (CONCAT(UPPER(s), '-', 'O''K')) VIRTUAL, "
    "g3 INT AS (IF(n > 3 AND flag, n DIV 2, n % 3)), g4 INT AS (CASE WHEN n > 5 THEN 1 ELSE 0 END) STORED, "
    "g5 BIGINT AS (n << 2 | 1), g6 INT AS (YEAR(d) * 100 + MONTH(d)) STORED, g7 DOUBLE AS (-n / 3.5), "
    "g8 VARCHAR(60) AS (JSON_UNQUOTE(JSON_EXTRACT(j, '$.name'))))",
    "CREATE TABLE b (id INT PRIMARY KEY, a_id INT, v INT, w INT DEFAULT (1 + 2), u CHAR(36) DEFAULT (UUID()), "
    "z VARCHAR(20) DEFAULT (CONCAT('a', 'b')), h INT INVISIBLE, k INT AS (h + 1) VIRTUAL INVISIBLE, "
    "KEY shown (a_id), KEY falling (v DESC))",
    "CREATE TABLE years (id INT NOT NULL, y DATETIME NOT NULL, PRIMARY KEY (id, y)) PARTITION BY RANGE (YEAR(y) + 1) "
    "(PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE lands (id INT NOT NULL, r VARCHAR(9) NOT NULL, PRIMARY KEY (id, r)) PARTITION BY LIST COLUMNS (r) "
    "SUBPARTITION BY HASH (id + 1) SUBPARTITIONS 2 (PARTITION e VALUES IN ('de', 'fr'), PARTITION w VALUES IN ('us'))",
    *(f"CREATE VIEW v{number} AS {text}" for number, text in enumerate(VIEWS)),
    "CREATE PROCEDURE tidy () DELETE FROM b WHERE v < 0",
    "CREATE EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 03:00:00' DO DELETE FROM b WHERE v < 0",
    "CREATE ROLE sellers",
    f"GRANT SELECT ON {SCHEMA}.* TO sellers",
    "CREATE USER clerk@localhost IDENTIFIED BY 'kept elsewhere'",
    "GRANT sellers TO clerk@localhost",
    f"GRANT UPDATE (n) ON {SCHEMA}.a TO clerk@localhost",
    f"GRANT EXECUTE ON PROCEDURE {SCHEMA}.tidy TO clerk@localhost",
    "GRANT PROCESS ON *.* TO clerk@localhost",
)
FAULTS: tuple[tuple[str, str, str], ...] = (
    (
        "ALTER TABLE a DROP CONSTRAINT low",
        "ALTER TABLE a ADD CONSTRAINT low CHECK (n > 0 AND (n < 100 OR s = 'it''s'))",
        "check printed.a.(`n` > 0) AND ((`n` < 100) OR (`s` = 'it''s')): missing",
    ),
    (
        "ALTER TABLE b ADD CONSTRAINT odd CHECK (v <> 3)",
        "ALTER TABLE b DROP CONSTRAINT odd",
        "check printed.b.`v` <> 3: only on the candidate",
    ),
    (
        f"CREATE OR REPLACE VIEW v0 AS {VIEWS[0].replace('n > 3', 'n >= 3')}",
        f"CREATE OR REPLACE VIEW v0 AS {VIEWS[0]}",
        "view printed.v0: another text (",
    ),
    (
        f"CREATE OR REPLACE VIEW v3 AS {VIEWS[3].replace('(n + 1) * 2', 'n + 1 * 2')}",
        f"CREATE OR REPLACE VIEW v3 AS {VIEWS[3]}",
        "view printed.v3: another text (",
    ),
    (
        "ALTER TABLE a MODIFY g1 INT AS (n + 1 * 2) STORED",
        "ALTER TABLE a MODIFY g1 INT AS ((n + 1) * 2) STORED",
        "column printed.a.g1: another generated ('(`n` + 1) * 2' became '`n` + (1 * 2)')",
    ),
    (
        "ALTER TABLE b ALTER z SET DEFAULT (CONCAT('a', 'c'))",
        "ALTER TABLE b ALTER z SET DEFAULT (CONCAT('a', 'b'))",
        "column printed.b.z: another default",
    ),
    (
        "ALTER TABLE a ALTER word SET DEFAULT 'f(x) it''s'",
        "ALTER TABLE a ALTER word SET DEFAULT 'F(x) it''s'",
        "column printed.a.word: another default",
    ),
    ("ALTER TABLE b MODIFY h INT", "ALTER TABLE b MODIFY h INT INVISIBLE", "column printed.b.h: another extra"),
    (
        "ALTER TABLE b DROP KEY falling, ADD KEY falling (v)",
        "ALTER TABLE b DROP KEY falling, ADD KEY falling (v DESC)",
        "index printed.b.falling.1: another order ('descending' became '')",
    ),
    (
        "ALTER TABLE years REORGANIZE PARTITION p0, p1 INTO (PARTITION p0 VALUES LESS THAN (2019), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE years REORGANIZE PARTITION p0, p1 INTO (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "partition printed.years.p0.-: another values ('2020' became '2019')",
    ),
    (
        "ALTER EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 04:00:00'",
        "ALTER EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 03:00:00'",
        "event printed.hourly: another from ('2030-01-01 03:00:00' became '2030-01-01 04:00:00')",
    ),
    (
        "ALTER EVENT hourly ON COMPLETION PRESERVE",
        "ALTER EVENT hourly ON COMPLETION NOT PRESERVE",
        "event printed.hourly: another afterwards",
    ),
    (
        "SET SESSION time_zone = '+02:00'; ALTER EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 03:00:00'",
        "SET SESSION time_zone = 'SYSTEM'; ALTER EVENT hourly ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 03:00:00'",
        "event printed.hourly: another time zone ('SYSTEM' became '+02:00')",
    ),
    (
        "DROP PROCEDURE tidy; SET SESSION sql_mode = 'ANSI_QUOTES'; CREATE PROCEDURE tidy () DELETE FROM b WHERE v < 0; "
        "GRANT EXECUTE ON PROCEDURE printed.tidy TO clerk@localhost",
        f"DROP PROCEDURE tidy; {SESSION[1]}; CREATE PROCEDURE tidy () DELETE FROM b WHERE v < 0; "
        "GRANT EXECUTE ON PROCEDURE printed.tidy TO clerk@localhost",
        "routine printed.PROCEDURE.tidy: another sql mode",
    ),
    (
        "DROP PROCEDURE tidy; SET NAMES latin1; CREATE PROCEDURE tidy () DELETE FROM b WHERE v < 0; "
        "GRANT EXECUTE ON PROCEDURE printed.tidy TO clerk@localhost",
        f"DROP PROCEDURE tidy; {SESSION[0]}; CREATE PROCEDURE tidy () DELETE FROM b WHERE v < 0; "
        "GRANT EXECUTE ON PROCEDURE printed.tidy TO clerk@localhost",
        "routine printed.PROCEDURE.tidy: another charset of its text ('utf8mb4' became 'latin1')",
    ),
    (
        "REVOKE sellers FROM clerk@localhost",
        "GRANT sellers TO clerk@localhost",
        "role of an account 'clerk'@'localhost'.sellers: missing",
    ),
    (
        "REVOKE SELECT ON printed.* FROM sellers",
        "GRANT SELECT ON printed.* TO sellers",
        "grant on schema 'sellers'@'%'.printed.SELECT: missing",
    ),
    (
        "REVOKE UPDATE (n) ON printed.a FROM clerk@localhost",
        "GRANT UPDATE (n) ON printed.a TO clerk@localhost",
        "grant on column 'clerk'@'localhost'.printed.a.n.UPDATE: missing",
    ),
    (
        "REVOKE EXECUTE ON PROCEDURE printed.tidy FROM clerk@localhost",
        "GRANT EXECUTE ON PROCEDURE printed.tidy TO clerk@localhost",
        "grant on routine 'clerk'@'localhost'.printed.PROCEDURE.tidy: missing",
    ),
    (
        "REVOKE PROCESS ON *.* FROM clerk@localhost",
        "GRANT PROCESS ON *.* TO clerk@localhost",
        "grant everywhere 'clerk'@'localhost'.PROCESS: missing",
    ),
    (
        "GRANT FILE ON *.* TO clerk@localhost",
        "REVOKE FILE ON *.* FROM clerk@localhost",
        "grant everywhere 'clerk'@'localhost'.FILE: only on the candidate",
    ),
)
"""What is planted, what takes it back (both perhaps several statements), and what has to be said."""
HIDDEN = {
    "mysql": ("ALTER TABLE b ALTER INDEX shown INVISIBLE", "ALTER TABLE b ALTER INDEX shown VISIBLE"),
    "mariadb": ("ALTER TABLE b ALTER INDEX shown IGNORED", "ALTER TABLE b ALTER INDEX shown NOT IGNORED"),
}
