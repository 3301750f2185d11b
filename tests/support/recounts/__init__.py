"""Counts of pages, made again from committed data: sentences that a page must have.

A function yields the sentences of one page, as `printed_counts.plain` shows them. What is listed in
tests/fixtures/printed-counts.yaml is made again by another test, or by nothing, with the reason and a date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recounts import examples, lab, response, what_if

Recount = Callable[[], Iterator[str]]
RECOUNTS: Mapping[str, tuple[Recount, ...]] = {
    "docs/causes.md": (lab.p95_by_stops,),
    "docs/credits.md": (what_if.stated_of_seed_3,),
    "docs/observe.md": (lab.incidents_in_all,),
    "docs/questions/what-to-buy.md": (what_if.near_of_seed_4,),
    "docs/response.md": (
        response.narrow_slopes,
        response.slopes_on_drawn_volumes,
        response.pairs_again,
        response.rules_for_waiting_times,
    ),
    "runner/volbench/results/response/levels.py": (response.held_by_the_error_of_another_run,),
    "results/examples/README.md": (examples.lost_of_fsx,),
    "results/examples/efs-small-files/README.md": (examples.efs_small_files,),
    "results/examples/fargate-efs-cold-read/README.md": (examples.fargate,),
    "results/examples/fsx-async-writes/README.md": (examples.fsx, examples.lost_of_fsx),
    "results/examples/lab/forecasts-known.md": (response.known_pairs,),
    "results/examples/lab/forecasts.md": (response.pairs_of_page,),
    "results/examples/lab/fresh.md": (lab.fresh_p95, lab.fresh_p95_by_stops),
    "results/examples/lab/shapes.md": (lab.sums_of_families,),
    "results/examples/lab/unseen.md": (lab.seeds_9_and_10, lab.seeds_of_causes, lab.mechanisms),
    "results/examples/lab/verdicts.md": (lab.verdicts_of_rows,),
    "results/examples/rook-ceph-replicas/README.md": (examples.rook,),
    "results/examples/storage-classes/README.md": (examples.storage_classes,),
    "results/examples/what-if/README.md": (what_if.of_readme,),
}
