"""The dataset where its template is made: on a claim, downloaded while it is loaded, or where it is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from volbench.core.profile.claim_path import CLAIM_EXAMPLE
from volbench.core.records.dataset import DatasetSpec
from volbench.machine.engine.own_data.on_claim import located
from volbench.measure.execute.downloads import download, download_directory, download_path

_WITHOUT_ROOM = f"measure a larger volume; or download the dump to a claim, and name it alone ({CLAIM_EXAMPLE})"


@contextmanager
def available(dataset: DatasetSpec, directory: Path, say: Callable[[str], None]) -> Iterator[DatasetSpec]:
    """Hold a dataset with the path at which this agent reads it.

    Args:
        directory: of volbench, where a dump that has an address and no path is kept while it is held.
        say: gets the download's progress.

    Raises what `download` and `located` raise.
    """
    if not dataset.url or dataset.path:
        yield located(dataset)
        return
    path = download_path(dataset.url, directory)
    try:
        download(dataset.url, path, sha256=dataset.sha256, progress=say, without_room=_WITHOUT_ROOM)
        yield dataset.model_copy(update={"path": str(path)})
    finally:
        shutil.rmtree(download_directory(directory), ignore_errors=True)
