"""A table of two servers that are compared: its columns, its key, and names as SQL has them."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = ("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob")
STRINGS = ("char", "varchar", "text", "tinytext", "mediumtext", "longtext")


def quoted_name(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of both servers: its type on the source, whether it may be NULL, whether texts are stored alike.

    `ordered_alike` says whether both servers sort its values in one order, so that it can divide a table.
    """

    name: str
    type: str
    nullable: bool = True
    stored_alike: bool = False
    ordered_alike: bool = False

    @property
    def base_type(self) -> str:
        """The type without length and signedness."""
        return self.type.split("(", maxsplit=1)[0].split(maxsplit=1)[0]


@dataclass(frozen=True, kw_only=True)
class ComparedTable:
    """A table to compare: columns, key, and columns that are not comparable."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    incomparable: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """schema.table"""
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """`schema`.`table`"""
        return f"{quoted_name(self.schema)}.{quoted_name(self.name)}"
