#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches real users of NVTX for tests/interception/test_nvtx.py: NVIDIA's Python package, and the C headers with the memory
# extension. Nothing is installed outside of the folder.
#
# Usage: fetch-nvtx.sh DEPS    result: DEPS/nvtx (the packages of nvtx.txt); where they cannot be had, DEPS/nvtx.skipped says why
set -u
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?folder}"
target=$(cd "$1" && pwd)/nvtx
pins=$(sha256sum <"$scripts/nvtx.txt")

exec 9>"$target.lock"
flock 9 # two suites may ask at the same time
[ "$(cat "$target/pins" 2>/dev/null)" = "$pins" ] && exit 0
[ "$(cat "$target.skipped" 2>/dev/null)" = hidden ] && exit 0 # scripts/check.sh: a newcomer does not have it
rm -rf "${target:?}" "$target.new" "$target.skipped"
if python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target "$target.new" --requirement "$scripts/nvtx.txt" >"$target.log" 2>&1 9>&-; then
    echo "$pins" >"$target.new/pins"
    mv "$target.new" "$target"
else
    grep -m 1 -iE 'error|not found|no module' "$target.log" >"$target.skipped" || tail -n 1 "$target.log" >"$target.skipped"
    rm -rf "$target.new"
fi
