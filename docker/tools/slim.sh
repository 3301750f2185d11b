#!/bin/sh
# Removes from the Python packages in directory $1 what volbench never loads in a container: about a third of them.
#   DuckDB    `volbench query` reads results where the user is
#   pyarrow   Flight, file systems of clouds and Hadoop (S3 is boto3's), ORC, Feather, C++ headers and tests; volbench reads and
#             writes Parquet files, and reads CSV
#   botocore  the interfaces of all services but S3 and those that credentials come from
#   NumPy     its tests with the module for them, C headers and libraries, the compiler of Fortran
#   Pygments  lexers, but for the one that rich shows a traceback with
#   hatchling and what only it needs: it builds volbench's wheel, which no container does
#   all       types and sources of Cython; the second and third copy of a library, since a wheel cannot hold a link
#   symbols   of libraries (half of the connector's size), where binutils is installed; not of those in NAME.libs, which
#             a wheel's repair has laid out so that strip breaks some of them (NumPy 2.4's OpenBLAS)
set -eu
cd "$1"
rm -rf duckdb _duckdb* duckdb-*.dist-info
rm -rf pyarrow/include pyarrow/src pyarrow/tests
rm -f pyarrow/_flight.* pyarrow/libarrow_flight.so* pyarrow/libarrow_python_flight.so*
rm -f pyarrow/_s3fs.* pyarrow/libarrow_s3.so* pyarrow/_gcsfs.* pyarrow/_azurefs.* pyarrow/_hdfs.*
rm -f pyarrow/_orc.* pyarrow/_dataset_orc.* pyarrow/_feather.* pyarrow/_pyarrow_cpp_tests.*
rm -rf numpy/_core/_simd.* numpy/_core/include numpy/_core/lib numpy/random/lib numpy/f2py
rm -rf hatchling* editables* pathspec* pluggy* tomlkit* trove_classifiers*
find pygments/lexers -type f ! -name '__init__.py' ! -name _mapping.py ! -name python.py ! -name special.py -delete
find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name 'sso*' ! -name sts ! -name signin -exec rm -rf {} +
find numpy -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' \) -delete
find pyarrow mysql/vendor/private -maxdepth 1 -name '*.so.*.*' | while read -r library; do
  short=${library%.*}
  while [ "$short" != "${short%.so*}" ]; do
    if [ -f "$short" ] && [ ! -L "$short" ] && cmp -s "$library" "$short"; then ln -sf "${library##*/}" "$short"; fi
    case $short in *.so) break ;; esac
    short=${short%.*}
  done
done
command -v strip >/dev/null || exit 0
find . -type f -name '*.so*' ! -path '*.libs/*' | while read -r library; do
  if strip --strip-unneeded -o "$library.stripped" "$library" 2>/dev/null; then
    chmod --reference="$library" "$library.stripped" && mv "$library.stripped" "$library"
  else # no ELF file
    rm -f "$library.stripped"
  fi
done
