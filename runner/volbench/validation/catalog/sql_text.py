"""Normal forms of views, checks and expressions, whichever server printed them.

MySQL prints parentheses everywhere and MariaDB nearly nowhere; each has its own names of some functions, and prints
clauses that the other omits. So texts are parsed into trees without parentheses and printed with all of them. A
text that cannot be parsed has no normal form, and is compared as printed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from volbench.core.sql.library import as_bytes
from volbench.core.sql.tokens import Kind, Tokens

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns on the terminal of syntax that it keeps unchanged

UNPARSED = "as printed: "
"""The prefix of a text without a normal form: two such texts may differ and mean the same."""
_ESCAPED = re.compile(r"_[a-z0-9]+\\'")
_INTRODUCED = re.compile(r"(?<![\w`.'])_(?:utf8mb[34]|latin1|binary|ascii|cp1252)(?=')")
_SPELLED = {
    "now": "current_timestamp",
    "octet_length": "length",
    "lcase": "lower",
    "ucase": "upper",
    "substring": "substr",
    "dayofmonth": "day",
}
_TRUTH = (exp.And, exp.Or, exp.Xor, exp.Not, exp.Where, exp.Having, exp.If)


def normal_expression(text: str) -> str:
    """Return the normal form of the expression of a generated column, a check or a partition."""
    return _normal(text, lambda sql: sqlglot.parse_one(f"SELECT {sql}", dialect="mysql"), cut=len("SELECT "))


def normal_query(text: str) -> str:
    """Return the normal form of a view's query."""
    return _normal(text, lambda sql: sqlglot.parse_one(sql, dialect="mysql"), cut=0)


def _normal(text: str, parse: Callable[[str], exp.Expr], *, cut: int) -> str:
    if not text:
        return ""
    plain = " ".join(_INTRODUCED.sub("", _unescaped(text)).split())
    try:
        tree = parse(_respelled(plain))
        if any(tree.find_all(exp.Command)):
            return UNPARSED + plain
        return _written(_normalise_tree(tree))[cut:]
    except (SqlglotError, RecursionError, ValueError):
        return UNPARSED + plain


def _unescaped(text: str) -> str:
    """Undo MySQL's escapes of quotes in expressions of its dictionary, and its UTF-8 shown as Latin-1."""
    if not _ESCAPED.search(text):
        return text
    plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    try:
        return plain.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return plain


def _respelled(sql: str) -> str:
    """Rewrite syntax that the parser does not accept: MySQL's functions around a rollup, MOD between operands."""
    text = as_bytes(sql)
    pieces, before, previous = bytearray(), 0, b""
    for kind, start, end, _ in Tokens(text):
        token, following = text[start:end], text[end : end + 1]
        if kind == Kind.WORD and token.lower() == b"mod" and following.isspace() and previous:
            token = b"%"
        gap = text[before:start]
        if kind == Kind.WORD and token.lower() == b"select" and previous == b")":
            gap = b" "
        pieces += gap + token
        before, previous = end, token
    pieces += text[before:]
    return pieces.decode("utf-8", "surrogateescape")


def _normalise_tree(tree: exp.Expr) -> exp.Expr:
    for change in (_without_parentheses, _functions, _windows, _unions, _exists, _orders, _truths, _lower_names):
        tree = change(tree)
    return tree


def _replace_nodes(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr], *kinds: type[exp.Expr]) -> exp.Expr:
    """Replace nodes from the leaves up, so that children are replaced before their parents."""
    for node in reversed(list(tree.find_all(*kinds))):
        new = change(node)
        if new is not node:
            node.replace(new)
    return tree


def _without_parentheses(tree: exp.Expr) -> exp.Expr:
    _replace_nodes(tree, lambda node: node.this, exp.Paren)
    return _replace_nodes(tree, _chained, exp.And, exp.Or)


def _chained(node: exp.Expr) -> exp.Expr:
    """Rewrite a AND (b AND c) as (a AND b) AND c."""
    kind, right = type(node), node.expression
    if not isinstance(right, kind):
        return node
    return kind(this=_chained(kind(this=node.this, expression=right.this)), expression=right.expression)


def _functions(tree: exp.Expr) -> exp.Expr:
    return _replace_nodes(tree, lambda node: _RESPELLED[type(node)](node), *_RESPELLED)


def _literal_last(node: exp.Expr) -> exp.Expr:
    turned = isinstance(node.this, exp.Literal) and not isinstance(node.expression, exp.Literal)
    return type(node)(this=node.expression, expression=node.this) if turned else node


def _week(node: exp.Expr) -> exp.Expr:
    """Remove the default mode of WEEK(), which MySQL prints."""
    if str(node.args.get("mode")) == "0":
        node.set("mode", None)
    return node


def _like(node: exp.Expr) -> exp.Expr:
    if node.args.get("negate"):
        node.set("negate", None)
        _wrap(node, exp.Not())
    return node


def _wrap(node: exp.Expr, wrapper: exp.Expr) -> None:
    """Put a node into another that takes its place. It is moved: copies of nested nodes take quadratic time."""
    node.replace(wrapper)
    wrapper.set("this", node)


def _frame(node: exp.Expr) -> exp.Expr:
    for at, value in node.args.items():
        if isinstance(value, str):
            node.set(at, value.upper())
    return node


def _named(node: exp.Expr) -> exp.Expr:
    """Rename a function that the parser does not know; remove MySQL's internal ones around a rollup."""
    name = str(node.this).lower()
    if name in {"rollup_group_item", "rollup_sum_switcher"}:
        inner: exp.Expr = node.expressions[0]
        return inner
    node.set("this", _SPELLED.get(name, name))
    return node


_RESPELLED: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Boolean: lambda node: exp.Literal.number(int(bool(node.this))),
    exp.EQ: _literal_last,
    exp.NEQ: _literal_last,
    exp.Week: _week,
    exp.Like: _like,
    exp.WindowSpec: _frame,
    exp.Anonymous: _named,
}


def _windows(tree: exp.Expr) -> exp.Expr:
    """Inline named windows, as MariaDB prints them."""
    for select in tree.find_all(exp.Select):
        named = {window.this.name.lower(): window for window in select.args.get("windows") or ()}
        if not named:
            continue
        for window in select.find_all(exp.Window):
            over = window.args.get("alias")
            if over is not None and over.name.lower() in named and not isinstance(window.this, exp.Identifier):
                spec = named[over.name.lower()]
                window.set("alias", None)
                for argument in ("partition_by", "order", "spec"):
                    if spec.args.get(argument):
                        value = spec.args[argument]
                        window.set(argument, [v.copy() for v in value] if isinstance(value, list) else value.copy())
        select.set("windows", None)
    return tree


def _unions(tree: exp.Expr) -> exp.Expr:
    """Propagate a later UNION to earlier UNION ALLs, and drop names of columns that do not count."""
    for union in tree.find_all(exp.Union):
        left = union.this
        while union.args.get("distinct") and isinstance(left, exp.Union):
            left.set("distinct", True)
            left = left.this
        _unnamed(union.expression)
    for cte in tree.find_all(exp.CTE):
        alias = cte.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            _unnamed(cte.this)
    return tree


def _unnamed(query: exp.Expr) -> None:
    for select in (query.this, query.expression) if isinstance(query, exp.Union) else (query,):
        if isinstance(select, exp.Union):
            _unnamed(select)
        elif isinstance(select, exp.Select):
            select.set("expressions", [expression.unalias() for expression in select.expressions])


def _exists(tree: exp.Expr) -> exp.Expr:
    """Remove the LIMIT 1 that MariaDB adds to EXISTS."""
    for condition in tree.find_all(exp.Exists):
        if isinstance(condition.this, exp.Select) and str(condition.this.args.get("limit")) == "LIMIT 1":
            condition.this.set("limit", None)
    return tree


def _orders(tree: exp.Expr) -> exp.Expr:
    """Replace numbers and aliases in ORDER BY by their expressions."""
    for select in tree.find_all(exp.Select):
        order, columns = select.args.get("order"), select.expressions
        named = {column.alias.lower(): column.this for column in columns if isinstance(column, exp.Alias)}
        for ordered in order.expressions if order else ():
            by = ordered.this
            if (
                isinstance(by, exp.Literal)
                and not by.is_string
                and by.this.isdigit()
                and int(by.this) <= len(columns)
            ):
                ordered.set("this", columns[int(by.this) - 1].unalias().copy())
            elif isinstance(by, exp.Column) and not by.table and by.name.lower() in named:
                ordered.set("this", named[by.name.lower()].copy())
    return tree


def _truths(tree: exp.Expr) -> exp.Expr:
    """Rewrite `x <> 0` as `x` where a truth value is expected."""

    def simplify(node: exp.Expr) -> exp.Expr:
        is_truth_value = isinstance(node.parent, _TRUTH) and node.arg_key in {"this", "expression"}
        return node.this if is_truth_value and str(node.expression) == "0" else node

    return _replace_nodes(tree, simplify, exp.NEQ)


def _lower_names(tree: exp.Expr) -> exp.Expr:
    """Lower-case columns and aliases, which are case-insensitive; tables and schemas need not be."""
    for column in tree.find_all(exp.Column, exp.Alias):
        name = column.this if isinstance(column, exp.Column) else column.args.get("alias")
        if isinstance(name, exp.Identifier):
            name.set("this", name.name.lower())
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", True)
    return tree


def _written(tree: exp.Expr) -> str:
    """Return the text with parentheses around every nested operation."""

    def parenthesise(node: exp.Expr) -> exp.Expr:
        within = isinstance(node.parent, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Case | exp.If)
        if within and not isinstance(node, exp.Dot | exp.Paren) and not isinstance(node.parent, exp.Dot):
            _wrap(node, exp.Paren())
        return node

    return _replace_nodes(tree, parenthesise, exp.Binary, exp.Unary, exp.Between, exp.In, exp.Case).sql(
        dialect="mysql", comments=False
    )
