#!/bin/sh
# Leaves compiled modules of the Python packages in directory $1, and of OpenSSL what the system has not. Runs in the image.
# The interfaces of Kubernetes are texts for the larger half, which nothing reads there.
set -eu
cd "$1"
python3 -m compileall -q -b -j 0 -x '/kubernetes/client/' "$1"
[ ! -d kubernetes/client ] || python3 -m compileall -q -b -j 0 -o 2 "$1/kubernetes/client"
find . -name '*.py' -delete
for library in mysql/vendor/libcrypto.so.3 mysql/vendor/libssl.so.3; do
  ! python3 -c "import ctypes, sys; ctypes.CDLL(sys.argv[1])" "${library##*/}" 2>/dev/null || rm -f "$library"
done
