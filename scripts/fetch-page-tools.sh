#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what bundles the page's script and drives a browser in its tests: the packages of
# tools/report/page/web/package-lock.json from the npm registry, without running any of their scripts.
#
# Usage: fetch-page-tools.sh DEPS     result: DEPS/page-tools/node_modules; else exit 1, and why on standard error
set -eu
cd "$(dirname "$0")/.."
deps=${1:?folder} web=tools/report/page/web

for program in node npm; do
    command -v $program >/dev/null 2>&1 || {
        echo "fetch-page-tools: $program is not installed" >&2
        exit 1
    }
done
target=$deps/page-tools lock=$(sha256sum <$web/package-lock.json)
mkdir -p "$deps"
exec 9>"$deps/page-tools.lock"
flock 9 # two suites may ask at the same time
[ "$(cat "$target/lock.sha256" 2>/dev/null)" != "$lock" ] || exit 0

rm -rf "$target"
mkdir "$target"
cp $web/package.json $web/package-lock.json "$target"
(cd "$target" && npm ci --ignore-scripts --no-audit --no-fund) >"$target/log" 2>&1 9>&- || {
    echo "fetch-page-tools: npm: $(grep -m 1 -iE 'error' "$target/log" || tail -n 1 "$target/log")" >&2
    exit 1
}
echo "$lock" >"$target/lock.sha256"
