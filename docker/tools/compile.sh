#!/bin/sh
# Compiles the Python packages in directory $1 and removes their sources, and the connector's OpenSSL where the system has one.
# Runs in the image. More than half of Kubernetes' client is documentation strings, so it is compiled without them.
set -eu
cd "$1"
python3 -m compileall -q -b -j 0 -x '/kubernetes/client/' "$1"
[ ! -d kubernetes/client ] || python3 -m compileall -q -b -j 0 -o 2 "$1/kubernetes/client"
find . -name '*.py' -delete
for library in mysql/vendor/libcrypto.so.3 mysql/vendor/libssl.so.3; do
  ! python3 -c "import ctypes, sys; ctypes.CDLL(sys.argv[1])" "${library##*/}" 2>/dev/null || rm -f "$library"
done
