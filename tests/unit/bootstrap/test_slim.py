"""What the tools image leaves out of the Python packages: optional parts and copies, never what volbench loads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "docker/tools/slim.sh"
COMPILE = SCRIPT.with_name("compile.sh")
LIBRARIES = {
    "pyarrow/libarrow.so.2600": "core",
    "pyarrow/libarrow_python.so": "python",
    "pyarrow/libarrow_python.so.2600": "python",
    "pyarrow/libarrow_python.so.2600.1.0": "python",
    "pyarrow/libarrow_flight.so.2600": "flight",
    "pyarrow/libarrow_substrait.so.2600": "the core links it",
    "pyarrow/libarrow_s3.so.2600": "of one module",
    "pyarrow/_s3fs.cpython-314-x86_64-linux-gnu.so": "boto3 does that",
    "pyarrow/_orc.cpython-314-x86_64-linux-gnu.so": "a format",
    "pyarrow/_csv.cpython-314-x86_64-linux-gnu.so": "of metrics",
    "pyarrow/_flight.cpython-314-x86_64-linux-gnu.so": "flight",
    "pyarrow/_parquet.cpython-314-x86_64-linux-gnu.so": "parquet",
    "pyarrow/tests/test_array.py": "",
    "numpy/_core/tests/test_umath.py": "",
    "numpy/_core/umath.py": "",
    "numpy/_core/umath.pyi": "types",
    "pyarrow/array.pxi": "sources",
    "numpy/_core/_simd.cpython-314-x86_64-linux-gnu.so": "of tests",
    "numpy/_core/include/numpy/arrayobject.h": "",
    "numpy/testing/__init__.py": "",
    "pygments/lexers/__init__.py": "",
    "pygments/lexers/_mapping.py": "",
    "pygments/lexers/python.py": "of tracebacks",
    "pygments/lexers/sql.py": "",
    "botocore/data/endpoints.json": "of every service",
    "botocore/data/s3/2006-03-01/service-2.json.gz": "results, dumps",
    "botocore/data/sso-oidc/2019-06-10/service-2.json.gz": "credentials",
    "botocore/data/sts/2011-06-15/service-2.json.gz": "credentials of a role",
    "botocore/data/ec2/2016-11-15/service-2.json.gz": "instances",
    "hatchling/build.py": "",
    "trove_classifiers-2026.9.21.13.dist-info/METADATA": "",
    "mysql/vendor/private/libkrb5.so.3": "kerberos",
    "mysql/vendor/private/libkrb5.so.3.3": "kerberos",
    "mysql/vendor/private/libother.so.1": "first",
    "mysql/vendor/private/libother.so.1.1": "second",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, content in LIBRARIES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    subprocess.run(["sh", str(SCRIPT), str(tmp_path)], check=True, timeout=30)
    return tmp_path


def test_optional_parts_and_tests_are_gone(site: Path) -> None:
    left = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert LIBRARIES.keys() - left == {
        "pyarrow/libarrow_flight.so.2600",
        "pyarrow/_flight.cpython-314-x86_64-linux-gnu.so",
        "pyarrow/libarrow_s3.so.2600",
        "pyarrow/_s3fs.cpython-314-x86_64-linux-gnu.so",
        "pyarrow/_orc.cpython-314-x86_64-linux-gnu.so",
        "numpy/_core/_simd.cpython-314-x86_64-linux-gnu.so",
        "numpy/_core/include/numpy/arrayobject.h",
        "pyarrow/tests/test_array.py",
        "numpy/_core/tests/test_umath.py",
        "numpy/_core/umath.pyi",
        "pyarrow/array.pxi",
        "pygments/lexers/sql.py",
        "botocore/data/ec2/2016-11-15/service-2.json.gz",
        "hatchling/build.py",
        "trove_classifiers-2026.9.21.13.dist-info/METADATA",
    }


def test_a_copy_of_a_library_becomes_a_link_and_another_library_stays(site: Path) -> None:
    links = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_symlink()}
    assert links == {
        "pyarrow/libarrow_python.so",
        "pyarrow/libarrow_python.so.2600",
        "mysql/vendor/private/libkrb5.so.3",
    }
    for name, content in LIBRARIES.items():
        if name in links:
            assert (site / name).read_text() == content
    assert (site / "mysql/vendor/private/libother.so.1").read_text() == "first"


def test_symbols_are_stripped(tmp_path: Path) -> None:
    """A strip that shortens what begins as an ELF file, and refuses all else as the real one does."""
    programs, site = tmp_path / "bin", tmp_path / "site"
    (site / "pygments/lexers").mkdir(parents=True)
    for name in (
        "_mysql_connector.cpython-314-x86_64-linux-gnu.so",
        "pyarrow/libarrow.so.2600",
        "pyarrow/text.so",
        "numpy.libs/libscipy_openblas64_-32a4b2a6.so",
    ):
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text" if "text" in name else "\x7fELF and symbols")
    (site / "numpy").mkdir()
    (site / "botocore/data").mkdir(parents=True)
    (site / "mysql/vendor/private").mkdir(parents=True)
    programs.mkdir()
    (programs / "strip").write_text('#!/bin/sh\ngrep -q ELF "$4" && printf stripped >"$3"\n')
    (programs / "strip").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(SCRIPT), str(site)], check=True, timeout=30, env=environment)
    contents = {str(path.relative_to(site)): path.read_text() for path in site.rglob("*") if path.is_file()}
    assert contents == {
        "_mysql_connector.cpython-314-x86_64-linux-gnu.so": "stripped",
        "pyarrow/libarrow.so.2600": "stripped",
        "pyarrow/text.so": "text",
        "numpy.libs/libscipy_openblas64_-32a4b2a6.so": "\x7fELF and symbols",
    }


def test_modules_are_compiled_and_interfaces_of_kubernetes_without_their_texts(tmp_path: Path) -> None:
    for name in ("kubernetes/client/api.py", "kubernetes/config.py", "other.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Its text."""\n')
    subprocess.run(["sh", str(COMPILE), str(tmp_path)], check=True, timeout=60)
    left = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: b"Its text." in code for name, code in left.items()} == {
        "kubernetes/client/api.pyc": False,
        "kubernetes/config.pyc": True,
        "other.pyc": True,
    }


@pytest.mark.parametrize(("loads", "left"), [(True, set()), (False, {"libcrypto.so.3", "libssl.so.3"})])
def test_a_second_openssl_stays_where_the_system_has_none(tmp_path: Path, loads: bool, left: set[str]) -> None:
    """A Python that compiles nothing, and loads a library or does not."""
    programs, vendor = tmp_path / "bin", tmp_path / "site/mysql/vendor"
    vendor.mkdir(parents=True)
    programs.mkdir()
    for name in ("libcrypto.so.3", "libssl.so.3"):
        (vendor / name).touch()
    (programs / "python3").write_text(f'#!/bin/sh\n[ "$1" = -m ] || exit {int(not loads)}\n')
    (programs / "python3").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(COMPILE), str(tmp_path / "site")], check=True, timeout=60, env=environment)
    assert {path.name for path in vendor.iterdir()} == left
