"""The name of a dataset template in the cache: a hash over everything that determines its bytes."""

from __future__ import annotations

import hashlib
import json
import os

from volbench.core.records.base import Scalar, parse_size_bytes
from volbench.core.records.cell import ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.machine.engine.config import PINNED, checked_options
from volbench.machine.engine.dataset import PREPARE_SEED
from volbench.machine.engine.differences import ServerIdentity, fit_options
from volbench.machine.engine.own_data.content import content_hash

TEMPLATE_SCHEMA = 1
_KEY_HEX_DIGITS = 32
_SHAPING_OPTIONS = frozenset(
    {
        "character_set_server",
        "collation_server",
        "default_storage_engine",
        "innodb_autoextend_increment",
        "innodb_checksum_algorithm",
        "innodb_compression_algorithm",
        "innodb_compression_level",
        "innodb_data_file_path",
        "innodb_default_row_format",
        "innodb_extend_and_initialize",
        "innodb_file_per_table",
        "innodb_fill_factor",
        "innodb_log_file_size",
        "innodb_log_files_in_group",
        "innodb_page_size",
        "innodb_redo_log_capacity",
        "innodb_undo_tablespaces",
        "lower_case_table_names",
        "sql_mode",
    }
)
"""Options that determine the bytes of a data directory."""


def template_key(dataset: DatasetSpec, spec: ServerSpec, identity: ServerIdentity, run_id: str = "") -> str:
    """Return the template's name in the cache: a hash (SHA-256) over everything that determines its bytes.

    A copy of another server's schema is of one run alone: that server's data may change.
    """
    options = fit_options({**PINNED, **checked_options(spec.config)}, identity).options
    encrypted = {} if spec.encryption == "none" else {"encryption": spec.encryption}
    own = {"content": run_id if dataset.kind == "schema" else content_hash(dataset)} if dataset.is_own else {}
    content = {
        **own,
        **encrypted,
        "schema": TEMPLATE_SCHEMA,
        "dataset": dataset.model_dump(mode="json", exclude={"path", "url", "sha256", "size_bytes", "threads"}),
        "seed": PREPARE_SEED,
        "flavor": identity.flavor,
        "version": identity.version,
        "owner": os.geteuid(),  # only their owner can read the files, so each user has templates of their own
        "options": {name: _plain(value) for name, value in options.items() if name in _SHAPING_OPTIONS},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_KEY_HEX_DIGITS]


def _plain(value: Scalar) -> Scalar:
    """Return sizes as bytes, so that 64M and 64MiB give the same template."""
    try:
        return parse_size_bytes(value) if isinstance(value, str) else value
    except ValueError:
        return value.lower() if isinstance(value, str) else value
