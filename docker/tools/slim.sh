#!/bin/sh
# Removes from the Python packages in directory $1 what volbench never loads: about a sixth of them.
#   pyarrow   its Flight, C++ headers and tests; volbench reads and writes Parquet files, and streams to S3
#   NumPy     its tests
#   all       the second and third copy of a library, since a wheel cannot hold a link
set -eu
cd "$1"
rm -rf pyarrow/include pyarrow/src pyarrow/tests
rm -f pyarrow/_flight.* pyarrow/libarrow_flight.so* pyarrow/libarrow_python_flight.so*
find numpy -type d -name tests -prune -exec rm -rf {} +
find pyarrow mysql/vendor/private -maxdepth 1 -name '*.so.*.*' | while read -r library; do
  short=${library%.*}
  while [ "$short" != "${short%.so*}" ]; do
    if [ -f "$short" ] && [ ! -L "$short" ] && cmp -s "$library" "$short"; then ln -sf "${library##*/}" "$short"; fi
    case $short in *.so) break ;; esac
    short=${short%.*}
  done
done
