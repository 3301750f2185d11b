from __future__ import annotations

import pytest

from volbench.cli.quantities import parsed, positive
from volbench.core.records.base import parse_duration_s, parse_size_bytes
from volbench.errors import UsageError


def test_options_are_read_in_their_units() -> None:
    assert parsed(parse_duration_s, "--keep", "2h") == 7200
    assert positive(parse_size_bytes, "--size", "1KiB", noun="a size") == 1024


@pytest.mark.parametrize("text", ["soon", "0s", "nan"])
def test_an_error_names_the_option_and_its_text(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        positive(parse_duration_s, "--p95", text, noun="a time")
    assert caught.value.where == f"--p95 {text}"
