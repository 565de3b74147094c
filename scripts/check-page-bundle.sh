#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the committed bundle of the page's script and style was made from the present sources: by the checksums that
# it was committed with, which needs nothing, and by bundling again, where npm and the registry can be reached.
#
# Usage: check-page-bundle.sh          --update bundles, and writes the checksums
set -eu
cd "$(dirname "$0")/.."
web=tools/report/page/web bundle=tools/report/page/bundle deps=${DEPS_DIR:-build/deps}

sums() { # of all that decides what the bundle is, and of the bundle
    find $web $bundle -type f ! -name '*.md' ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}

if [ "${1:-}" = --update ]; then
    scripts/fetch-page-tools.sh "$deps"
    node $web/build.mjs "$deps/page-tools" $bundle
    sums >$bundle/SHA256SUMS
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sums >"$work/sums"
diff $bundle/SHA256SUMS "$work/sums" || {
    echo "the bundle is not of these sources: make page-bundle" >&2
    exit 1
}
if why=$(scripts/fetch-page-tools.sh "$deps" 2>&1); then
    node $web/build.mjs "$deps/page-tools" "$work/again"
    diff -r -x SHA256SUMS $bundle "$work/again" || {
        echo "bundling again gives other bytes: make page-bundle" >&2
        exit 1
    }
else
    echo "# bundling again was not tried: $why"
fi
