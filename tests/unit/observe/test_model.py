"""The records of an observation: their times are times."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic_observation

from volbench.errors import RunUnreadable
from volbench.observe.model import OBSERVATION_FILE, read_incidents, read_observation


@pytest.fixture
def observation(tmp_path: Path) -> Path:
    directory = tmp_path / "o"
    synthetic_observation.build(directory, 40, lambda second: (50.0, 1.0 if second < 20 else 9.0, 1.0))
    synthetic_observation.add_incident(directory, 20.0, 30.0)
    return directory


@pytest.mark.parametrize("zero", ["1e19", "-1", "2.3e11", "NaN", '"x"'])
def test_an_observation_of_no_time_is_refused(zero: str, observation: Path) -> None:
    """A page was begun, and ended where its times were written."""
    record = read_observation(observation)
    path = observation / OBSERVATION_FILE
    path.write_text(path.read_text().replace(str(record.zero_epoch_s), zero))
    with pytest.raises(RunUnreadable):
        read_observation(observation)


@pytest.mark.parametrize("onset", ["1e12", "-1e12"])
def test_an_incident_of_no_time_is_left_out(onset: str, observation: Path) -> None:
    (path,) = observation.glob("incidents/*/incident.json")
    assert len(read_incidents(observation)) == 1
    text = path.read_text()
    path.write_text(
        text.replace('"onset_s":20.0', f'"onset_s":{onset}').replace('"onset_s": 20.0', f'"onset_s": {onset}')
    )
    assert path.read_text() != text
    assert read_incidents(observation) == []
