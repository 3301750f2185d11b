"""State and caches lie outside the checkout."""

import threading
from pathlib import Path

from bootstrap.directories import Directories, find_directories


def test_root_keeps_its_state_with_the_machine() -> None:
    directories = find_directories({"HOME": "/root"}, is_root=True)
    assert directories.state == Path("/var/lib/volbench")
    assert directories.cache == Path("/root/.cache/volbench")


def test_user_keeps_it_at_home_and_xdg_variables_win() -> None:
    assert find_directories({"HOME": "/home/a"}, is_root=False).state == Path("/home/a/.local/state/volbench")
    moved = find_directories({"HOME": "/home/a", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"}, is_root=False)
    assert (moved.state, moved.cache) == (Path("/s/volbench"), Path("/c/volbench"))


def test_root_of_the_checkout_holds_the_makefile() -> None:
    assert (find_directories().root / "Makefile").is_file()


def test_second_set_up_waits_for_the_first(tmp_path: Path) -> None:
    directories = Directories(root=tmp_path, state=tmp_path / "state", cache=tmp_path)
    order: list[str] = []

    def second() -> None:
        with directories.locked(on_wait=lambda _: waits.set()):
            order.append("second")

    waits = threading.Event()
    with directories.locked(on_wait=order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(timeout=60)
        order.append("first")
    thread.join(timeout=60)
    assert order == ["first", "second"]
