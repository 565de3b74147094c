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
[ "$(cat "$target/lock.sha256" 2>/dev/null)" != "$lock" ] || exit 0

# Into a folder of its own, which becomes the result at once: two suites may ask at the same time.
new=$(mktemp -d "$deps/page-tools.XXXXXX")
trap 'rm -rf "$new"' EXIT
cp $web/package.json $web/package-lock.json "$new"
(cd "$new" && npm ci --ignore-scripts --no-audit --no-fund) >"$new/log" 2>&1 || {
    echo "fetch-page-tools: npm: $(grep -m 1 -iE 'error' "$new/log" || tail -n 1 "$new/log")" >&2
    exit 1
}
echo "$lock" >"$new/lock.sha256"
chmod 755 "$new"
rm -rf "$target"
mv -T "$new" "$target" 2>/dev/null || [ -e "$target/lock.sha256" ]
