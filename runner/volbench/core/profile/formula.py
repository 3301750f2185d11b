"""The formulas of volume profiles: arithmetic on named figures, and nothing else.

A formula is a Python expression of names, numbers, texts, `+ - * /`, comparisons, `and or not`, `a if c else b`,
and the functions min, max, clamp(x, low, high) and ceil. There are no attributes, indices, calls or loops.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from volbench.core.base.nearest import nearest_match

Value = float | str | bool

_LENGTH_MAX = 400
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))


_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "clamp": _clamp, "ceil": math.ceil}


def evaluate(formula: str | float, names: Mapping[str, Value]) -> Value:
    """Return the value of a formula.

    Args:
        formula: a text, or a number.
        names: the values of its names.

    Raises ValueError for an unknown name (with the nearest match), a division by zero, or an unsupported construct.
    """
    if not isinstance(formula, str):
        return formula
    if len(formula) > _LENGTH_MAX:
        raise ValueError(f"a formula has at most {_LENGTH_MAX} characters")
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{formula!r} is not a formula: {error.msg}") from error
    try:
        return _value(tree.body, names)
    except (ZeroDivisionError, OverflowError, TypeError) as error:
        raise ValueError(f"{formula!r}: {error}") from error


def _value(node: ast.expr, names: Mapping[str, Value]) -> Value:  # noqa: C901, PLR0911 - one case a construct
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            return _named(name, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_number(left, names), _number(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, names) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, names) for value in values)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_value(left, names), _value(right, names))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if function in _FUNCTIONS:
            return _FUNCTIONS[function](*(_number(arg, names) for arg in args))
    raise ValueError(f"formulas have no {ast.unparse(node)!r}")


def _named(name: str, names: Mapping[str, Value]) -> Value:
    if name in names:
        return names[name]
    nearest = nearest_match(name, names)
    hint = f", perhaps you meant {nearest}" if nearest else ""
    raise ValueError(f"there is no figure, parameter or formula called {name!r}{hint}")


def _number(node: ast.expr, names: Mapping[str, Value]) -> float:
    value = _value(node, names)
    if isinstance(value, str):
        raise TypeError(f"{value!r} is a text where a number is needed")
    return float(value)
