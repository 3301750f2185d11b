"""emulated volumes of a run: up, described as emulated, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.profile.resolve import resolve
from volbench.core.profile.spec import parse_volume
from volbench.errors import Refused, StepFailed, UsageError
from volbench.machine.volume.copying import copy_tree
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.machine.volume.factory import make_volume


@pytest.mark.emulator
def test_life_of_an_emulated_volume(tmp_path: Path) -> None:
    """It is mounted, labelled with profile and parameters, erased at the end; leftover bytes are not seen again."""
    spec = parse_volume(f"a=emulated:ebs-gp3?size=1GiB&dir={tmp_path}")
    killed = EmulatedVolume(resolve("ebs-gp3", {"size": "1GiB"}), tmp_path, name="run-a")
    killed.start()
    (killed.data / "old").write_text("x")
    killed.stop()
    with make_volume(spec) as opened:
        assert opened.host_path is not None
        assert list(opened.host_path.iterdir()) == []
        assert opened.facts is not None
        assert opened.facts.emulated_profile == "ebs-gp3"
        assert opened.facts.emulated_parameters["size"] == 1 << 30
        assert opened.facts.device is not None
        with pytest.raises(Refused), make_volume(spec):
            pass
        assert opened.host_path.is_mount()
    assert list(tmp_path.iterdir()) == []


def test_unknown_profile_and_option() -> None:
    """Mistakes are told when the volume is made, before anything runs."""
    for text in ("a=emulated:ebs-gp9", "a=emulated:ebs-gp3?sise=1GiB"):
        with pytest.raises(UsageError, match=r"perhaps you meant|there are"):
            make_volume(parse_volume(text))


@pytest.mark.emulator
def test_volume_disappears_while_copying(tmp_path: Path) -> None:
    """A detached device ends a copy as a failed step with the cause volume_gone, and can still be taken down."""
    source = tmp_path / "template"
    source.mkdir()
    (source / "t.ibd").write_bytes(b"x" * (8 << 20))
    volume = EmulatedVolume(resolve("local-nvme", {"size": "1GiB"}), tmp_path, name="gone")
    data = volume.start()
    try:
        volume.fault("detach")
        with pytest.raises(StepFailed) as caught:
            copy_tree(source, data / "copy")
        assert caught.value.cause == "volume_gone"
    finally:
        volume.remove()
    assert not volume.directory.exists()
