#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures bytes per event of synthetic streams, against the same events as heaptrack's text under zstd -3.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
events=${BENCH_EVENTS:-4000000}
for stream in iid periodic; do
    "$build/tests/bench/size" "$stream" "$events"
    "$build/tests/bench/size" "$stream" "$events" without-durations
done
