#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes what must be carried to a machine with a GPU to run scripts/gpu-check.sh there: the built library and tools, and
# the sources of what is compiled there against that machine's own libraries.
#
# Usage: sh scripts/gpu-pack.sh [--vllm=VERSION] [--part-size=SIZE] [DIR]
#                          the folder DIR and DIR.tar.gz (build/cutrace-gpu-pack)
#   --vllm=VERSION         takes vLLM along, as scripts/vllm-VERSION.pins pins it, for a machine that has its PyTorch (and
#                          Triton, torchvision) and its Python; scripts/fetch-vllm.py fetches it. --vllm=list says which
#                          versions there are, and for what
#   --part-size=SIZE       cuts DIR.tar.gz into DIR.tar.gz.000, .001, ... of at most SIZE (60M), for a way that takes no
#                          larger files; DIR.join.sh, which must lie beside them, puts them together
# There: tar xzf cutrace-gpu-pack.tar.gz (or sh cutrace-gpu-pack.join.sh), then sh cutrace-gpu-pack/scripts/gpu-check.sh
#
# The pack has this machine's cuda.h in it, for machines that have a compiler and no CUDA toolkit: it is for your own
# use, not for publishing.
set -eu
cd "$(dirname "$0")/.."
build=${CUTRACE_BUILD:-build}
most=${GPU_PACK_MOST:-$((30 * 1024 * 1024))} # bytes, without vLLM

fail() {
    echo "gpu-pack.sh: $*" >&2
    exit 1
}

# vLLM VERSION: PyTorch VERSION, Python TAG; one a line.
list_versions() {
    for pins in scripts/vllm-*.pins; do
        python=$(sed -n 's/^# Python 3\./cp3/p' "$pins")
        sed -n "s|^torch==\([0-9.]*\) .*|$(basename "$pins" .pins | sed 's/vllm-//'): PyTorch \1, Python $python|p" "$pins"
    done
}

vllm='' part_size='' pack=$build/cutrace-gpu-pack
for word; do
    case $word in
    --vllm=?*) vllm=${word#*=} ;;
    --part-size=?*) part_size=${word#*=} ;;
    -*) fail "unknown option $word: --vllm=VERSION, --part-size=SIZE" ;;
    *) pack=$word ;;
    esac
done
name=$(basename "$pack")
if [ "$vllm" = list ]; then
    list_versions
    exit
fi
if [ -n "$vllm" ] && [ ! -f "scripts/vllm-$vllm.pins" ]; then
    fail "no vLLM $vllm is pinned; there are
$(list_versions)"
fi

# What a machine with PyTorch has itself.
take_vllm() {
    deps=${CUTRACE_DEPS:-build/deps}
    python3 scripts/fetch-vllm.py "$deps" "$vllm"
    [ -f "$deps/vllm/$vllm/done" ] || fail "vLLM $vllm: $(cat "$deps/vllm/$vllm.skipped" 2>/dev/null || echo cannot be had)"
    mkdir "$pack/vllm"
    tar -C "$deps/vllm/$vllm" --exclude-from=/dev/stdin -cf - . <<'EOF' | tar -C "$pack/vllm" -xf -
./torch
./torch-*
./torchgen
./functorch
./triton
./triton-*
./torchvision*
./nvidia*
EOF
}

# The parts, their checksums, and the script that puts them together.
cut_into_parts() {
    rm -f "$pack.tar.gz".[0-9]*
    split -b "$part_size" -d -a 3 "$pack.tar.gz" "$pack.tar.gz."
    rm "$pack.tar.gz"
    cat >"$pack.join.sh" <<END
#!/bin/sh
# Checks the parts of $name beside this file and unpacks them: sh $name.join.sh [FOLDER]
set -eu
to=\$(cd "\${1:-.}" && pwd)
cd "\$(dirname "\$0")"
sha256sum -c --quiet <<'EOF'
$(cd "$(dirname "$pack")" && sha256sum "$name.tar.gz".[0-9]*)
EOF
cat $name.tar.gz.[0-9]* | tar -C "\$to" -xzf -
END
}

for file in libcutrace.so cutrace cutrace-report; do
    [ -f "$build/$file" ] || fail "$build/$file is missing: run make first"
done
rm -rf "$pack" "$pack.tar.gz"
mkdir -p "$pack/build/sim" "$pack/scripts" "$pack/preload/intercept" "$pack/tests/interception" "$pack/tests/lib" "$pack/include/cuda"
cp "$build/libcutrace.so" "$build/cutrace" "$build/cutrace-report" "$pack/build/"
if command -v strip >/dev/null; then strip -g "$pack/build/cutrace" "$pack/build/cutrace-report"; fi # half of the pack
# The simulated driver, so that its figures can be compared with the GPU's on the spot.
for file in libcuda.so.1 libnvidia-ml.so.1 libcudart.so.13 libsimcudart.a; do
    if [ -f "$build/sim/$file" ]; then cp "$build/sim/$file" "$pack/build/sim/"; fi
done
cp scripts/gpu-check.sh "$pack/scripts/"
cp preload/intercept/*.def "$pack/preload/intercept/"
cp tests/interception/cu.h tests/interception/load.c tests/interception/libinjected_tool.c "$pack/tests/interception/"
cp tests/lib/check_ledger.py tests/lib/symbol_table.h "$pack/tests/lib/"
cp tests/lib/vllm_*.py "$pack/tests/lib/"
mkdir -p "$pack/tests/torch/allocator"
cp tests/torch/allocator/segments.py "$pack/tests/torch/allocator/"
cp -R tests/gpu tests/vllm "$pack/tests/"
rm -rf "$pack/tests/gpu/results" # of other machines
mkdir "$pack/tests/report"
cp -R tests/report/vllm "$pack/tests/report/" # what libraries hold on the simulated GPU, beside what they hold there
find "$pack/tests" -name __pycache__ -exec rm -rf {} +
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
if [ -n "$vllm" ]; then take_vllm; fi
tar -C "$(dirname "$pack")" -czf "$pack.tar.gz" "$name"
for thing in "$pack" "$pack.tar.gz"; do
    bytes=$(du -sb "$thing" | cut -f 1)
    [ -n "$vllm" ] || [ "$bytes" -lt "$most" ] || fail "$thing has $bytes bytes, $most are the limit"
    echo "$thing: $bytes bytes"
done
if [ -n "$part_size" ]; then
    cut_into_parts
    ls -l "$pack.join.sh" "$pack.tar.gz".[0-9]*
fi
