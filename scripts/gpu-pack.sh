#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes what must be carried to a machine with a GPU to run scripts/gpu-check.sh there: the built library and tools, and
# the sources of what is compiled there against that machine's own libraries.
#
# Usage: sh scripts/gpu-pack.sh [DIR]     the folder DIR and DIR.tar.gz (build/cutrace-gpu-pack)
# There: tar xzf cutrace-gpu-pack.tar.gz && sh cutrace-gpu-pack/scripts/gpu-check.sh
#
# The pack has this machine's cuda.h in it, for machines that have a compiler and no CUDA toolkit: it is for your own
# use, not for publishing.
set -eu
cd "$(dirname "$0")/.."
build=${CUTRACE_BUILD:-build}
pack=${1:-$build/cutrace-gpu-pack}
most=${GPU_PACK_MOST:-$((30 * 1024 * 1024))} # bytes

fail() {
    echo "gpu-pack.sh: $*" >&2
    exit 1
}

for file in libcutrace.so cutrace cutrace-report; do
    [ -f "$build/$file" ] || fail "$build/$file is missing: run make first"
done
rm -rf "$pack" "$pack.tar.gz"
mkdir -p "$pack/build/sim" "$pack/scripts" "$pack/preload/intercept" "$pack/tests/interception" "$pack/tests/lib" "$pack/include/cuda"
cp "$build/libcutrace.so" "$build/cutrace" "$build/cutrace-report" "$pack/build/"
# The simulated driver, so that its figures can be compared with the GPU's on the spot.
for file in libcuda.so.1 libnvidia-ml.so.1 libcudart.so.13 libsimcudart.a; do
    if [ -f "$build/sim/$file" ]; then cp "$build/sim/$file" "$pack/build/sim/"; fi
done
cp scripts/gpu-check.sh "$pack/scripts/"
cp preload/intercept/*.def "$pack/preload/intercept/"
cp tests/interception/cu.h tests/interception/load.c "$pack/tests/interception/"
cp tests/lib/check_ledger.py "$pack/tests/lib/"
cp -R tests/gpu "$pack/tests/"
rm -rf "$pack/tests/gpu/__pycache__"
cp LICENSE "$pack/"
headers=$(make -s BUILD="$build" show-CUDA_INC 2>/dev/null || echo /usr/local/cuda/include)
for file in cuda.h cudaTypedefs.h; do
    if [ -f "$headers/$file" ]; then cp "$headers/$file" "$pack/include/cuda/"; fi
done

# What is built here must run on an older system: the library with glibc 2.28, the tools with that of Ubuntu 22.04.
if command -v objdump >/dev/null; then
    for file in libcutrace.so:28 cutrace:35 cutrace-report:35; do
        newest=$(objdump -T "$pack/build/${file%:*}" | sed -n 's/.*GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
        [ "${newest:-0}" -le "${file#*:}" ] || fail "${file%:*} needs glibc 2.$newest"
    done
fi
tar -C "$(dirname "$pack")" -czf "$pack.tar.gz" "$(basename "$pack")"
for thing in "$pack" "$pack.tar.gz"; do
    bytes=$(du -sb "$thing" | cut -f 1)
    [ "$bytes" -lt "$most" ] || fail "$thing has $bytes bytes, $most are the limit"
    echo "$thing: $bytes bytes"
done
