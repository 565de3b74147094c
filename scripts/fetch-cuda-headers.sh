#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the CUDA headers from NVIDIA's pip packages, for machines without a CUDA toolkit and for the checks
# against other CUDA versions. The packages carry headers for every host architecture alike.
#
# Usage: fetch-cuda-headers.sh 12|13|newest [DEPS]     prints the include folder, DEPS/cuda-VERSION/include
# 12 and 13 are pinned by version and hash (cuda-headers-*.txt); newest is whatever PyPI has today.
# Exit 3: PyPI (or pip) cannot be reached.
set -eu

version=${1:?version}
scripts=$(cd "$(dirname "$0")" && pwd)
deps=${2:-$scripts/../build/deps}
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
target=$deps/cuda-$version

exec 9>"$deps/cuda-headers.lock"
flock 9
if [ "$version" != newest ] && [ -e "$target/done" ]; then
    echo "$target/include"
    exit 0
fi

# pip from the system, or from a virtual environment of ours (Debian's python3 has no pip of its own).
if python3 -m pip --version >/dev/null 2>&1; then
    python=python3
else
    python=$deps/venv/bin/python3
    [ -x "$python" ] || python3 -m venv "$deps/venv" >&2 || {
        echo "fetch-cuda-headers: neither pip nor venv works (install python3-venv)" >&2
        exit 3
    }
fi
download() {
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --python-version 3.11 --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_12_x86_64 \
        --platform manylinux2010_x86_64 --dest "$wheels" "$@" >&2
}

wheels=$deps/wheels-$version
if [ "$version" = newest ]; then
    rm -rf "$wheels"
    mkdir -p "$wheels"
    download nvidia-cuda-runtime || exit 3
    release=$(basename "$wheels"/nvidia_cuda_runtime-*.whl)
    release=${release#nvidia_cuda_runtime-}
    release=$(printf '%s' "${release%%-*}" | cut -d. -f1-2)
    download "nvidia-cuda-crt==$release.*" || exit 3
    download "nvidia-cuda-cupti==$release.*" || exit 3
else
    [ -r "$scripts/cuda-headers-$version.txt" ] || {
        echo "fetch-cuda-headers: 12, 13 or newest, not '$version'" >&2
        exit 2
    }
    download --require-hashes -r "$scripts/cuda-headers-$version.txt" || exit 3
fi

rm -rf "$target"
mkdir -p "$target"
python3 - "$target" "$wheels"/*.whl <<'PYTHON'
import os, sys, zipfile

target = sys.argv[1]
for wheel in sys.argv[2:]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = name.split("/")
            if "include" in parts and not name.endswith("/") and ".." not in parts:
                path = os.path.join(target, *parts[parts.index("include"):])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as out:
                    out.write(archive.read(name))
PYTHON
printf '#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <cuda_runtime_api.h>\n' |
    "${CC:-gcc}" -x c -fsyntax-only -I"$target/include" - || {
    echo "fetch-cuda-headers: the headers unpacked into $target do not compile" >&2
    exit 1
}
rm -rf "$wheels"
touch "$target/done"
echo "$target/include"
