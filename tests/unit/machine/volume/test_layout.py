"""A layout of several volumes: its SPEC, what is refused, how its volumes are opened and closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from volbench.core.plan.variants import with_spec_options
from volbench.core.plan.volume_check import check_volumes
from volbench.core.profile.layout import check_roles, component_word
from volbench.core.profile.spec import parse_volume
from volbench.core.records.base import Scalar
from volbench.core.records.run import VolumeSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.volume.factory import make_volume


def roles_of(spec: VolumeSpec) -> dict[str, tuple[str, ...]]:
    return {component_word(component): component.roles for component in spec.layout}


def test_the_data_are_the_volume_and_the_other_components_its_layout() -> None:
    spec = parse_volume("a=data:path:/mnt/d,log:emulated:ebs-gp3?iops=4000&size=20GiB,tmp:/mnt/t")
    assert (spec.kind, spec.location, spec.name) == ("path", "/mnt/d", "a")
    assert roles_of(spec) == {"log": ("redo", "binlog"), "tmp": ("tmp",)}
    assert spec.layout[0].options == {"iops": "4000", "size": "20GiB"}
    assert [component.name for component in spec.layout] == ["a.log", "a.tmp"]
    assert parse_volume(spec.text, name="a") == spec


@pytest.mark.parametrize(
    "order", ["data:/mnt/d,redo:/mnt/r,binlog:/mnt/b", "redo:/mnt/r,data:/mnt/d,binlog:/mnt/b"]
)
def test_the_order_of_components_does_not_matter(order: str) -> None:
    spec = parse_volume(f"a={order}")
    assert spec.location == "/mnt/d"
    assert roles_of(spec) == {"redo": ("redo",), "binlog": ("binlog",)}


def test_a_comma_among_mount_options_begins_no_component() -> None:
    spec = parse_volume("a=data:nfs:server:/export?vers=4.1,nconnect=4,log:path:/mnt/l")
    assert spec.options == {"options": "vers=4.1,nconnect=4"}
    assert roles_of(spec) == {"log": ("redo", "binlog")}
    assert parse_volume("a=nfs:server:/export?vers=4.1,nconnect=4").layout == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a=data:path:/d,log:path:/l,log:path:/m", "'log' occurs twice"),
        ("a=data:path:/d,log:path:/l,binlog:path:/b", "both name the binary log"),
        ("a=data:path:/d,lgo:path:/l", "'lgo' is no component of a server"),
        ("a=log:path:/l", "no volume for the data"),
        ("a=data:path:/d,log:path:/d", "'data' and 'log' name the same directory"),
        ("a=data:path:/d,log:path:/d/../d", "'data' and 'log' name the same directory"),
        ("a=data:path:/d,redo:path:/l,binlog:path:/l", "'redo' and 'binlog' name the same directory"),
        ("a=data:path:/d,log:pth:/l", "unknown kind of volume 'pth'"),
        ("a=data:path:/d,log:docker-volume:x", "cannot be a component of a layout"),
        ("a=data:path:/d?control=/c,log:path:/l", "a server from elsewhere has its own layout"),
        ("a=data:data:path:/d,log:path:/l", "is a layout itself"),
        ("a=data:", "names no volume"),
    ],
)
def test_what_is_no_layout_is_refused_with_its_fault(text: str, named: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_volume(text)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("item", "component"),
    [
        ("data:path:/d,log:path:/proc", "a.log=path:/proc"),
        ("data:path:/d,tmp:pth:/t", "a.tmp=pth:/t"),
        ("data:path:/d,redo:nfs:server:/r?hrad", "a.redo=nfs:server:/r?hrad"),
        ("data:path:/proc,log:path:/l", "a.data=path:/proc"),
    ],
)
def test_a_fault_in_a_component_names_it(item: str, component: str) -> None:
    """Of a layout's several volumes, on the command line and in a suite."""
    for parse in (lambda: parse_volume(f"a={item}"), lambda: parse_volume(item, name="a")):
        with pytest.raises(UsageError) as refused:
            parse()
        assert refused.value.where == f"volume {component!r}"


def test_a_misspelled_component_has_its_nearest_match() -> None:
    with pytest.raises(UsageError, match="perhaps you meant 'doublewrite'"):
        parse_volume("a=data:path:/d,doublwrite:path:/l")


@pytest.mark.parametrize("target", ["kubernetes", "attach"])
def test_targets_with_one_volume_for_a_server_refuse_a_layout(target: str) -> None:
    with pytest.raises(UsageError, match="has no layouts"):
        check_volumes(["a=data:path:/d,log:path:/l"], target=target)  # type: ignore[arg-type]


def test_every_component_of_a_layout_is_checked() -> None:
    with pytest.raises(UsageError, match="iosp"):
        check_volumes(["a=data:path:/d,log:emulated:ebs-gp3?iosp=4000"], target="local")


def test_a_sweep_of_volume_options_refuses_a_layout() -> None:
    with pytest.raises(UsageError, match="a layout of several"):
        with_spec_options(parse_volume("a=data:emulated:ebs-gp3,log:path:/l"), {"iops": 4000})


def option_of(**values: Scalar) -> object:
    return values.get


@pytest.mark.parametrize(
    ("component", "flavor", "options", "named"),
    [
        ("doublewrite", "mariadb", {}, "MariaDB writes its doublewrite buffer into the system tablespace"),
        ("doublewrite", "mysql", {"innodb_doublewrite": False}, "switches innodb_doublewrite off"),
        ("binlog", "mysql", {"log_bin": "OFF"}, "switches log_bin off"),
        ("log", "mysql", {"log_bin": 0}, "switches log_bin off"),
        ("undo", "mariadb", {"innodb_undo_tablespaces": 0}, "are in the system tablespace"),
    ],
)
def test_a_server_without_files_of_a_role_is_refused_before_the_run(
    component: str, flavor: str, options: dict[str, Scalar], named: str
) -> None:
    spec = parse_volume(f"a=data:/d,{component}:/l")
    with pytest.raises(UsageError, match=named):
        check_roles([spec], flavor=flavor, option=option_of(**options))  # type: ignore[arg-type]
    check_roles([parse_volume("a=/d")], flavor=flavor, option=option_of(**options))  # type: ignore[arg-type]
    check_roles([spec], flavor="mysql", option=option_of())  # type: ignore[arg-type]


def test_a_layout_opens_every_volume_and_finds_one_directory_behind_two_names(tmp_path: Path) -> None:
    for name in ("data", "log"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    layout = make_volume(parse_volume(f"a=data:{tmp_path}/data,log:{tmp_path}/log"))
    with layout as opened:
        assert [volume.name for volume in opened.all] == ["a", "a.log"]
        assert opened.components[0].spec.roles == ("redo", "binlog")
        assert opened.components[0].facts is not None
    with (
        pytest.raises(UsageError, match="the same directory"),
        make_volume(parse_volume(f"a=data:{tmp_path}/data,log:{tmp_path}/link")),
    ):
        pass


def test_a_missing_component_names_itself(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingPrerequisite) as lacking,
        make_volume(parse_volume(f"a=data:{tmp_path},log:{tmp_path}/x")),
    ):
        pass
    assert "a.log" in lacking.value.where
