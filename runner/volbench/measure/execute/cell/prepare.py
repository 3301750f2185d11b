"""`volbench cell prepare`: makes the dataset's template in the cache, where the server is."""

from __future__ import annotations

from pathlib import Path

from volbench.core.base import ownership
from volbench.core.records.cell import CellResult, CellSpec, PreparedTemplate
from volbench.machine.engine.template import prepare_template
from volbench.machine.host.host import host_facts
from volbench.machine.volume.facts.discovery import discover
from volbench.measure.execute.cell.dataset import available
from volbench.measure.execute.cell.handshake import require_version
from volbench.measure.execute.cell.progress import ProgressFile
from volbench.measure.execute.cell.result_builder import CellResultBuilder
from volbench.measure.execute.cell.supervision import running_supervisor
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE, TEMPLATE_FILE


def prepare_dataset(cell: CellSpec, out: Path) -> CellResult:
    """Build the template that the cell's dataset, server and configuration need, or reuse the cached one.

    Write template.json and result.json to `out`. A failure is part of the result; it is not raised.
    """
    paths = cell.own_places
    cache = Path(paths.template_dir)
    if not cache.exists():  # on a volume that is mounted for this cell alone, nobody else creates it
        ownership.claim(cache, purpose="templates", run_id=cell.run_id)
    builder = CellResultBuilder(cell, volume_facts=discover(cache), host=host_facts())
    progress = ProgressFile(out)
    reports: list[str] = []

    def report(text: str, fraction: float | None) -> None:
        reports.append(text)
        progress.report(text, fraction)

    with builder.capturing_failure():
        require_version(cell)
        with (
            builder.phase("prepare"),
            available(cell.dataset, cache, lambda text: progress.report(text, None)) as dataset,
            running_supervisor(paths) as supervisor,
        ):
            template = prepare_template(
                spec=cell.server,
                dataset=dataset,
                paths=paths,
                supervisor=supervisor,
                run_id=cell.run_id,
                progress=report,
            )
        record = PreparedTemplate(
            key=template.record.key,
            bytes=template.record.data_bytes,
            reused=not reports,
            tables=len(template.record.tables),
            rows=template.record.rows,
            sha256=template.record.sha256,
        )  # only a build reports progress
        write_record(out / TEMPLATE_FILE, record)
    result = builder.result()
    write_record(out / RESULT_FILE, result)
    return result
