"""A schema with everything that a migration can lose, in SQL that MySQL and MariaDB both take."""

from __future__ import annotations

SCHEMA = "shop"

SQL_MODE = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
STATEMENTS: tuple[str, ...] = (
    # Bodies are kept with the session's modes and character sets, and servers begin with other ones.
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    f"SET SESSION sql_mode = '{SQL_MODE}'",
    "SET SESSION time_zone = '+00:00'",
    f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    f"USE {SCHEMA}",
    "CREATE TABLE customers (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(190) NOT NULL UNIQUE, "
    "name VARCHAR(80) COLLATE utf8mb4_unicode_ci, born DATE NULL, score DOUBLE DEFAULT 0.1, "
    "seen TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, "
    "initial CHAR(1) AS (LEFT(email, 1)) STORED, KEY by_initial (initial, name(10)), "
    "CHECK (score >= 0)) COMMENT 'who buys'",
    "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL, "
    "placed DATETIME(6) NOT NULL, total DECIMAL(12,2) NOT NULL, state ENUM('new','paid','sent') DEFAULT 'new', "
    "flags SET('gift','rush'), note TEXT, picture BLOB, mask BIT(5), place POINT, "
    "doubled DECIMAL(13,2) AS (total * 2) VIRTUAL, FULLTEXT KEY words (note), "
    "CONSTRAINT who FOREIGN KEY (customer_id) REFERENCES customers (id) ON DELETE CASCADE)",
    "CREATE TABLE items (order_id BIGINT UNSIGNED NOT NULL, line SMALLINT NOT NULL, sku VARBINARY(16) NOT NULL, "
    "price FLOAT, PRIMARY KEY (order_id, line))",
    "CREATE TABLE settings (k VARCHAR(40) CHARACTER SET latin1 NOT NULL PRIMARY KEY, v VARCHAR(200))",
    "CREATE TABLE heap (a INT, b VARCHAR(20))",
    "CREATE TABLE audit (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60), "
    "at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    "INSERT INTO customers (email, name, born, score, seen) "
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
    "SELECT CONCAT('u', i, '@example.org'), CONCAT('M\u00fcller ', CHAR(65 + i % 26 USING utf8mb4)), "
    "IF(i % 7, DATE_ADD('1970-01-01', INTERVAL i DAY), NULL), i * 1e0 / 3, '2024-03-31 01:30:00' FROM n",
    "INSERT INTO orders (customer_id, placed, total, state, flags, note, picture, mask, place) "
    "SELECT 1 + a.id * 7 % 900, '2024-01-01 00:00:00.000001' + INTERVAL a.id MINUTE, a.id * 1.5, "
    "ELT(1 + a.id % 3, 'new', 'paid', 'sent'), IF(a.id % 5, 'gift,rush', ''), "
    "CONCAT('note ', a.id, ' \U0001f600'), UNHEX(SHA2(a.id, 256)), a.id % 32, "
    "ST_GeomFromText(CONCAT('POINT(', a.id, ' 2)')) "
    "FROM customers a JOIN (SELECT 1 UNION SELECT 2 UNION SELECT 3) b",
    "INSERT INTO items SELECT id, 1, LEFT(UNHEX(SHA2(id, 256)), 16), id * 1e0 / 7 FROM orders",
    "INSERT INTO settings VALUES ('colour', 'grün'), ('empty', ''), ('null', NULL)",
    "INSERT INTO heap VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
    "CREATE DEFINER = 'app'@'localhost' TRIGGER log_order AFTER INSERT ON orders FOR EACH ROW "
    "INSERT INTO audit (what) VALUES (CONCAT('order ', NEW.id))",
    "CREATE DEFINER = 'app'@'localhost' PROCEDURE close_old (IN days INT) SQL SECURITY INVOKER "
    "UPDATE orders SET state = 'sent' WHERE placed < NOW() - INTERVAL days DAY",
    "CREATE DEFINER = 'app'@'localhost' FUNCTION vat (amount DECIMAL(12,2)) RETURNS DECIMAL(12,2) DETERMINISTIC "
    "RETURN amount * 0.19",
    "CREATE DEFINER = 'app'@'localhost' EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 03:00:00' "
    "ON COMPLETION PRESERVE DO DELETE FROM audit WHERE at < NOW() - INTERVAL 90 DAY",
    "CREATE DEFINER = 'app'@'localhost' SQL SECURITY DEFINER VIEW open_orders AS "
    "SELECT id, total FROM orders WHERE state <> 'sent' WITH CASCADED CHECK OPTION",
)
ACCOUNTS: tuple[str, ...] = (
    "DROP USER IF EXISTS bench@localhost",  # which only one of two servers has
    "CREATE USER 'app'@'localhost' IDENTIFIED BY 'kept in a vault'",
    f"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE, TRIGGER ON {SCHEMA}.* TO 'app'@'localhost'",
    "CREATE USER 'reader'@'localhost' IDENTIFIED BY 'read only'",
    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS ON *.* TO 'reader'@'localhost'",
)
