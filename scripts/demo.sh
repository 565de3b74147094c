#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on a machine as it comes: sets up, builds, lets a program run out of device memory under
# `cutrace run`, and reads the trace. Without a GPU the program talks to the simulated one of tests/sim.
set -eu
cd "$(dirname "$0")/.."

say() {
    if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}
run() {
    printf '$ %s\n' "$*"
    "$@"
}

say "1. What building needs"
run sh scripts/setup.sh
say "2. Build"
run make -s -j"$(nproc)" build-tests

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say "3. A program that runs out of device memory, under cutrace"
demo=build/tests/demo/demo
if [ -e /dev/nvidiactl ] && ldconfig -p | grep -q 'libcuda\.so\.1'; then
    echo "(on this machine's GPU)"
else
    echo "(no GPU here: the driver is the simulated one, build/sim/libcuda.so.1, with a device of 24 GiB)"
    export LD_LIBRARY_PATH="$PWD/build/sim" SIM_MEM_MB=24576
fi
run build/cutrace run -o "$work/trace.zst" -- "$demo" || echo "(exit status $?: it ran out of memory, as it should)"

say "4. What happened"
run build/cutrace-report "$work/trace.zst"
say "5. The same as one page for a browser"
run build/cutrace-report html --force -o build/demo.html "$work/trace.zst"
say "That is all: the trace is one file, readable on any machine by cutrace-report."
