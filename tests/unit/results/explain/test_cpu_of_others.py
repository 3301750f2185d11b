"""Who used the CPUs: the server itself, its quota, or programs that are none of this run's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns
from numpy.typing import NDArray

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.processors import CpuAccount, cpu_account
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.host.cpu_evidence import waits_elsewhere
from volbench.results.explain.rules.host.processors import cpus_explain_fall
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

Floats = NDArray[np.float64]
OTHERS, SATURATED = "interference.cpu", "cpu.server_saturated"


def on_cpus(own: float, delay: float, busy: float | Floats = 1.0, runnable: float = 60.0, **more: float) -> Case:
    """The recorded clean run of 16 clients on two CPUs, its processes on them and waiting for them."""
    return with_columns(
        case_of("clean"),
        {
            ("tasks", "cpus_used", "cell"): own,
            ("tasks", "run_delay_s_per_s", "cell"): delay,
            ("cpu", "user_ratio", ""): busy * 0.8,
            ("cpu", "system_ratio", ""): busy * 0.2,
            ("cpu", "runnable_threads", ""): runnable,
            **{("cgroup_cpu", metric, "server"): value for metric, value in more.items()},
        },
    )


def finding(case: Case, cause: str) -> Cause | None:
    return next((finding for finding in explain_case(case).findings if finding.cause == cause), None)


def first(case: Case) -> str:
    return explain_case(case).findings[0].cause


def test_other_programs_on_the_cpus_are_named_and_not_the_server() -> None:
    """0.4 of two busy CPUs are the cell's, whose tasks wait for ten seconds in each second."""
    case = on_cpus(0.4, 10.0)
    named = finding(case, OTHERS)
    assert first(case) == OTHERS
    assert named is not None
    assert finding(case, SATURATED) is None
    values = {row.metric: row.value for row in named.evidence}
    assert values["foreign_cpus"] == pytest.approx(1.6)
    assert values["lost_cpus"] == pytest.approx(1.6)
    assert "1.6 of the host's 2 CPUs" in named.evidence[0].text
    assert "give the server CPUs of its own" in named.advice


def test_a_server_that_uses_the_cpus_itself_is_saturated_by_itself() -> None:
    case = on_cpus(1.9, 10.0)
    assert first(case) == SATURATED
    assert finding(case, OTHERS) is None


def test_a_quota_is_the_servers_own_although_others_fill_the_cpus() -> None:
    """What waits under a quota waits for the quota: the CPUs that others use would not be given to it."""
    case = on_cpus(0.4, 10.0, throttled_ratio=0.97, cpus_used=0.4)
    assert first(case) == SATURATED
    assert finding(case, OTHERS) is None


def test_a_quota_that_nothing_counts_is_one_of_two() -> None:
    """10.4 of 20 runnable tasks are the cell's: 1.04 CPUs are its part, and it has 0.4 of them."""
    findings = explain_case(on_cpus(0.4, 10.0, runnable=20.0)).findings
    assert [finding.cause for finding in findings][:2] == [SATURATED, OTHERS]
    assert all(finding.one_of_two for finding in findings[:2])
    assert any(row.metric == "decide" for row in findings[0].evidence)
    counted = explain_case(on_cpus(0.4, 10.0, runnable=20.0, throttled_ratio=0.0, cpus_used=0.3)).findings
    assert counted[0].cause == OTHERS
    assert not counted[0].one_of_two


def test_a_quota_that_does_not_act_is_acquitted_in_words() -> None:
    named = finding(on_cpus(0.4, 10.0, throttled_ratio=0.01, cpus_used=0.4), OTHERS)
    assert named is not None
    assert any("it is not the cause" in row.text for row in named.evidence)


def test_both_have_their_share() -> None:
    """The cell wants both CPUs and has 1.2 of them: 40 % of its time on and before CPUs is the others' doing.

    Its tasks are runnable for 14.2 of 16 clients, and 17 % of the clients' time is reads and syncs at the device.
    """
    case = on_cpus(1.2, 13.0)
    own, remaining = finding(case, SATURATED), finding(case, OTHERS)
    assert own is not None
    assert remaining is not None
    most = 1 - waits_elsewhere(case)
    assert most == pytest.approx(0.830, abs=0.001)
    assert own.share == pytest.approx(0.6 * most)
    assert remaining.share == pytest.approx(0.4 * most)
    assert first(case) == SATURATED


def test_what_the_volume_takes_of_a_sync_is_no_wait_for_a_cpu() -> None:
    """Syncs of a log take 3.7 % of statement time, 6.4 ms each, and a write of the volume takes 3.4 ms."""
    case = on_cpus(1.2, 13.0)
    at_once = with_columns(case, {("diskstats", "w_await_ms", case.disk or ""): 0.0})
    assert case.budget is not None
    of_volume = waits_elsewhere(case) - waits_elsewhere(at_once)
    assert 0.3 < of_volume / case.budget.share("redo_sync", "binlog_sync") < 0.6


def test_others_that_fill_cpus_which_this_load_hardly_wants_are_no_cause() -> None:
    assert finding(on_cpus(0.05, 0.1), OTHERS) is None


def test_others_that_come_in_the_middle_have_their_time() -> None:
    """Two CPUs, the cell on 0.4 of them; from the middle on, others fill them, and the load falls to a third."""
    clean = case_of("clean")
    half = len(clean.grid) // 2
    late = np.arange(len(clean.grid)) >= half
    columns: dict[tuple[str, str, str], float | Floats] = {
        ("client", "tps", ""): np.where(late, 30.0, 90.0) * np.random.default_rng(1).normal(1, 0.03, len(late)),
        ("tasks", "run_delay_s_per_s", "cell"): np.where(late, 14.0, 0.5),
    }
    case = with_columns(on_cpus(0.4, 0.0, busy=np.where(late, 1.0, 0.25)), columns)
    case = replace(case, grid=case.grid, cell_grid=case.grid)
    named = finding(case, OTHERS)
    assert named is not None
    assert named.window_s[0] == pytest.approx(float(case.grid.t_s[half]) - case.grid.width_s, abs=1.0)


def test_others_that_take_what_a_blocked_server_leaves_are_no_event() -> None:
    """In the last third the load waits for a file and leaves its CPUs to others: nothing is lost to them then."""
    clean = case_of("clean")
    late = np.arange(len(clean.grid)) >= 2 * len(clean.grid) // 3
    case = with_columns(
        on_cpus(0.0, 0.0, busy=np.where(late, 1.0, 0.905)),
        {
            ("tasks", "cpus_used", "cell"): np.where(late, 0.05, 1.32),
            ("tasks", "run_delay_s_per_s", "cell"): np.where(late, 0.05, 13.7),
            ("client", "tps", ""): np.where(late, 9.0, 90.0) * np.random.default_rng(1).normal(1, 0.03, len(late)),
        },
    )
    named = finding(replace(case, cell_grid=case.grid), OTHERS)
    assert named is not None
    assert named.window_s == case.window_s
    assert not any(row.metric == "loss" for row in named.evidence)


def test_what_the_cell_lost_is_never_more_than_others_ran() -> None:
    """Delay of the cell's own threads among each other is none of others' doing."""
    account = CpuAccount(cpus=4, own=np.array([3.5]), foreign=np.array([0.3]), delay=np.array([9.0]))
    assert account.lost[0] == pytest.approx(0.3)
    assert account.lost_share() == pytest.approx(0.3 / 4)
    alone = CpuAccount(cpus=4, own=np.array([4.0]), foreign=np.array([0.0]), delay=np.array([9.0]))
    assert alone.lost_share() == 0
    idle = CpuAccount(cpus=4, own=np.array([0.5]), foreign=np.array([3.0]), delay=np.array([0.0]))
    assert idle.lost_share() == 0


def test_the_emulated_volume_and_the_groups_are_none_of_the_others() -> None:
    """Host busy less the cell, the daemon and the kernel's I/O workers; the groups' account where it has more."""
    values = {
        ("cpu", "user_ratio", ""): 0.6,
        ("cpu", "system_ratio", ""): 0.2,
        ("tasks", "cpus_used", "cell"): 1.0,
        ("tasks", "cpus_used", "emulator"): 0.3,
        ("tasks", "cpus_used", "io_workers"): 0.2,
        ("cgroup_cpu", "cpus_used", "server"): 1.1,
        ("cgroup_cpu", "cpus_used", "client"): 0.2,
    }
    columns = {SeriesKey(source=s, metric=m, entity=e): np.full(3, value) for (s, m, e), value in values.items()}
    account = cpu_account(Grid(t_s=np.arange(3.0), width_s=1.0, columns=columns), 4)
    assert account is not None
    assert account.foreign == pytest.approx(np.full(3, 3.2 - 1.3 - 0.3 - 0.2))


def test_without_the_cells_own_use_nobody_is_named() -> None:
    """A recording of sar says that the CPUs are full, and not by whom."""
    columns = {SeriesKey(source="cpu", metric=metric, entity=""): np.ones(3) for metric in ("user_ratio",)}
    assert cpu_account(Grid(t_s=np.arange(3.0), width_s=1.0, columns=columns), 4) is None


def test_a_fall_is_explained_by_cpus_only_where_they_took_the_time() -> None:
    clean = on_cpus(0.4, 0.0)
    late = np.arange(len(clean.grid)) >= len(clean.grid) // 2
    fall: dict[tuple[str, str, str], float | Floats] = {("client", "tps", ""): np.where(late, 9.0, 90.0)}
    waiting = {**fall, ("tasks", "run_delay_s_per_s", "cell"): np.where(late, 15.0, 1.0)}
    assert cpus_explain_fall(with_columns(clean, waiting), late)
    elsewhere = {**fall, ("tasks", "run_delay_s_per_s", "cell"): np.where(late, 2.0, 1.0)}
    assert not cpus_explain_fall(with_columns(clean, elsewhere), late)
