#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches Prometheus and promtool of Debian's package, which scrape `cutrace watch --serve` and check its rules in
# tests/watch/test_prometheus.py; nothing is installed outside of the folder, and no service is started.
#
# Usage: fetch-prometheus.sh DEPS    result: DEPS/prometheus/debian; else DEPS/prometheus/debian.skipped has the reason
set -u
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?folder}/prometheus"
target=$(cd "$1/prometheus" && pwd)
# shellcheck disable=SC1091 # (fetch-parts.sh is checked by itself)
. "$scripts/fetch-parts.sh"

fetch_debian() { # (checked by apt's signatures)
    command -v dpkg-deb >/dev/null || { echo "dpkg-deb: not found" && return 1; }
    apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb all &&
        mv all/usr/bin/prometheus all/usr/bin/promtool . && rm -rf all prometheus_*.deb
}
fetch_parts "$target" "$(sha256sum <"$scripts/fetch-prometheus.sh")" debian
