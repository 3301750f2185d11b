"""Which of the findings of independent rules stand, by what their descriptors say."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from volbench.results.explain import rules as package
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.causes import CAUSES, RULES
from volbench.results.explain.deciding import decided, in_order
from volbench.results.explain.rule import Rule

FOLDER = Path(package.__path__[0])
NAMES = {rule.name for rule in RULES}


def rule(name: str, **fields: Any) -> Rule:
    sets: dict[str, Any] = {key: frozenset(value) for key, value in fields.items()}
    return Rule(name=name, causes=sets.pop("causes", frozenset({name})), find=lambda _: (), **sets)


def finding(by: str, share: float | None = 0.5, **fields: Any) -> Cause:
    fields = {"cause": by, "checks": (True,), **fields}
    return Cause(rule=by, window_s=(0.0, 1.0), share=share, evidence=(), advice="", **fields)


def stand(
    findings: Iterable[Cause], *rules: Rule, causes: dict[str, CauseInfo] | None = None
) -> dict[str, tuple[float | None, bool]]:
    return {
        item.rule: (item.share, item.one_of_two) for item in decided([*findings], in_order(rules), causes or {})
    }


def test_no_rule_calls_another_rule() -> None:
    """A module of rules imports nothing that is a rule of another module."""
    finders = {rule.find.__name__ for rule in RULES}
    for file in FOLDER.rglob("*.py"):
        imported = {
            alias.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package.__name__)
            for alias in node.names
        }
        assert not imported & finders, file.name


ACQUITS = re.compile(r"(faster|larger) (volume|one)[^.:]* (chang|would not|does not|not help)", re.IGNORECASE)


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.py")), ids=lambda file: file.stem)
def test_that_a_faster_volume_is_no_help_is_said_as_volume_advice_only(file: Path) -> None:
    """Whether it is true is known when all findings of a step are: beside a slow volume it contradicts them."""
    tree = ast.parse(file.read_text())
    allowed = {
        id(node)
        for owner in ast.walk(tree)
        if (isinstance(owner, ast.keyword) and owner.arg == "volume_advice")
        or (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "CauseInfo")
        for node in ast.walk(owner)
    }
    for assignment in tree.body:
        if isinstance(assignment, ast.Assign) and isinstance(assignment.targets[0], ast.Name):
            name = assignment.targets[0].id
            uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
            if all(id(node) in allowed for node in uses if isinstance(node.ctx, ast.Load)):
                allowed |= {id(node) for node in ast.walk(assignment)}
    wrong = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in allowed
        and ACQUITS.search(node.value)
    ]
    assert wrong == []


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.py")), ids=lambda file: file.stem)
def test_no_rule_looks_for_a_cause_where_another_found_none(file: Path) -> None:
    """`[*this(case)] or [*that(case)]` decides between causes, which `yields_to` of a rule says for all to read."""
    chains = [
        node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.BoolOp)
        for operand in node.values
        if isinstance(operand, ast.List) and any(isinstance(item, ast.Starred) for item in operand.elts)
    ]
    assert chains == []


def test_no_rule_takes_findings_from_another_rules_module() -> None:
    """Modules share evidence; what makes a finding for two rules is in a module without rules."""
    modules = {rule.find.__module__: importlib.import_module(rule.find.__module__) for rule in RULES}
    imports = [
        f"{name} takes {function.__name__} of {function.__module__}"
        for name, module in modules.items()
        for function in vars(module).values()
        if inspect.isfunction(function)
        and function.__module__ in modules.keys() - {name}
        and "Cause" in str(function.__annotations__.get("return"))
    ]
    assert imports == []


def test_every_module_that_names_causes_has_rules() -> None:
    modules = {
        importlib.import_module(rule.find.__module__).__file__ for rule in RULES if hasattr(rule.find, "__module__")
    }
    assert len(modules) >= 20


def test_what_rules_give_way_to_is_there() -> None:
    for item in RULES:
        assert item.causes <= CAUSES.keys()
        assert item.before | item.sound_beside | item.one_of_two_with | item.after <= NAMES | CAUSES.keys()


def test_causes_that_descriptors_name_are_there() -> None:
    for name, cause in CAUSES.items():
        named = cause.suppresses | cause.yields_to | cause.effect_of | cause.brings | cause.contradicts
        assert named <= CAUSES.keys() - {name}


def test_what_the_latency_of_a_stretch_yields_to_is_data() -> None:
    """A latency in a stretch of the step is that of the event in it, and of an empty bucket."""
    for name in ("storage.read_latency", "storage.sync_latency"):
        assert CAUSES[name].yields_to_falls
        assert CAUSES[name].yields_to == {"storage.burst_exhausted"}
    assert CAUSES["interference.backup"].brings == {"storage.iops_limit", "storage.throughput_limit"}


def test_a_circle_and_a_name_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="circle: a, b"):
        in_order([rule("a", yields_to=["b"]), rule("b", needs=["a"])])
    with pytest.raises(ValueError, match="one name"):
        in_order([rule("a"), rule("a")])


def test_a_rule_comes_after_what_may_name_a_cause_that_it_gives_way_to() -> None:
    named = [item.name for item in in_order([rule("a", yields_to=["x"]), rule("z", causes=["x"])])]
    assert named == ["z", "a"]


def test_a_rule_gives_way_to_a_rule_and_to_a_cause() -> None:
    first, by_rule = rule("first", causes=["x"]), rule("second", yields_to=["first"])
    by_cause = rule("third", yields_to=["x"])
    findings = [finding("second"), finding("third"), finding("first", cause="x", share=0.01)]
    assert stand(findings, first, by_rule, by_cause) == {"first": (0.01, False)}
    assert stand(findings[:2], first, by_rule, by_cause).keys() == {"second", "third"}


def test_nothing_gives_way_to_what_does_not_stand_itself() -> None:
    chain = rule("a"), rule("b", yields_to=["a"]), rule("c", yields_to=["b"])
    assert stand([finding("a"), finding("b"), finding("c")], *chain).keys() == {"a", "c"}


@pytest.mark.parametrize(
    ("share", "leads", "much", "leading"),
    [(0.16, True, False, False), (0.16, False, False, True), (0.14, True, True, True), (None, True, False, False)],
)
def test_much_and_leading(share: float | None, leads: bool, much: bool, leading: bool) -> None:
    """15 % of the latency is much, and so is what is not known."""
    foreign = finding("others", share, leads=leads)
    left = stand(
        [foreign, finding("m"), finding("l")],
        rule("others"),
        rule("m", yields_to_much=["others"]),
        rule("l", yields_to_leading=["others"]),
    )
    assert ("m" in left, "l" in left) == (much, leading)


@pytest.mark.parametrize(("window_s", "stands"), [((2.0, 5.0), False), ((1.9, 5.0), True), ((2.0, 5.1), True)])
def test_within_the_time_of_another_a_finding_does_not_stand(window_s: tuple[float, float], stands: bool) -> None:
    both = rule("slow"), rule("stall", yields_within=["slow"])
    slow = replace(finding("slow"), window_s=(2.0, 5.0))
    assert ("stall" in stand([slow, replace(finding("stall"), window_s=window_s)], *both)) is stands


def test_what_needs_another_stands_beside_it_only() -> None:
    both = rule("limit"), rule("pieces", needs=["limit"])
    assert stand([finding("pieces")], *both) == {}
    assert stand([finding("pieces"), finding("limit")], *both).keys() == {"limit", "pieces"}


def test_beside_another_a_finding_stands_only_where_its_checks_held() -> None:
    both = rule("above"), rule("slow", sound_beside=["above"])
    failed, unmade = finding("slow", checks=(True, False)), finding("slow", checks=(True, None))
    assert stand([failed], *both).keys() == {"slow"}
    assert stand([failed, finding("above")], *both).keys() == {"above"}
    assert stand([unmade, finding("above")], *both).keys() == {"above", "slow"}


def test_one_of_two_marks_the_pair_and_shares_what_it_explains() -> None:
    both = rule("slow"), rule("limit", one_of_two_with=["slow"])
    sure = [finding("slow", 0.4), finding("limit", None)]
    assert stand(sure, *both) == {"slow": (0.4, False), "limit": (None, False)}
    doubtful = [finding("slow", 0.4), finding("limit", None, one_of_two=True)]
    assert stand(doubtful, *both) == {"slow": (0.4, True), "limit": (0.4, True)}
    assert stand(doubtful[1:], *both) == {"limit": (None, True)}


@pytest.mark.parametrize(
    ("share", "leads", "limit", "foreign"),
    [
        (0.5, True, 0.45, 0.5),  # others' I/O leads: the limit that is met with it explains less
        (0.5, False, 0.6, 0.5),  # it does not: it explains less than the limit
        (0.6, False, 0.6, 0.54),
        (0.14, True, 0.6, 0.14),  # it explains little: nothing is shared out
    ],
)
def test_what_comes_after_another_explains_less(share: float, leads: bool, limit: float, foreign: float) -> None:
    left = stand(
        [finding("others", share, leads=leads), finding("limit", 0.6)],
        rule("others"),
        rule("limit", after=["others"]),
    )
    assert left["limit"][0] == pytest.approx(limit)
    assert left["others"][0] == pytest.approx(foreign)


def test_a_cause_stands_in_place_of_another() -> None:
    name, alike = "storage.readahead_small", "storage.read_latency"
    left = stand(
        [finding("a", cause=name), finding("b", cause=alike), finding("c", cause=alike)],
        rule("a"),
        rule("b"),
        rule("c"),
        causes=dict(CAUSES),
    )
    assert left.keys() == {"a"}


def test_the_order_in_which_rules_found_something_decides_nothing() -> None:
    findings = [finding(item.name, cause=min(item.causes)) for item in RULES]
    first = decided(findings, RULES, CAUSES)
    for at in range(len(findings)):
        assert decided([*findings[at:], *findings[:at]], RULES, CAUSES) == first
        assert decided([*reversed(findings[:at]), *findings[at:]], RULES, CAUSES) == first
    assert 0 < len(first) < len(findings)
