#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `apt-get source` or `apt-get download` on the system's own mirrors for what its configuration lacks: source packages,
# another architecture, another suite. Nothing of the system is changed: lists and cache lie in a folder that is removed.
#
# Usage: apt-private.sh [--arch ARCH] [--suite SUITE] source|download ARGUMENTS...
# Exit 3: the mirrors cannot be reached, or apt has none.
set -eu

# shellcheck disable=SC1091
. /etc/os-release
arch='' suite=${VERSION_CODENAME:-}
while :; do
    case $1 in
    --arch) arch=$2 ;;
    --suite) suite=$2 ;;
    *) break ;;
    esac
    shift 2
done
case $1 in
source) type=deb-src ;;
*) type="deb${arch:+ [arch=$arch]}" ;;
esac

# shellcheck disable=SC2016 # apt's fields
mirrors=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
    "Release: ${VERSION_CODENAME:-}" | sort -u)
[ -n "$mirrors" ] || {
    echo "apt-private: apt has no mirror of ${VERSION_CODENAME:-this distribution}" >&2
    exit 3
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/empty"
for mirror in $mirrors; do
    echo "$type $mirror $suite main$([ "$ID" != ubuntu ] || echo ' universe')"
done >"$folder/sources.list"
{
    # The system's proxies and certificates, but none of its hooks.
    apt-config dump | grep -E '^Acquire::(http|https|ForceIPv|Retries|Check-)' || :
    echo "Dir::Etc::main \"$folder/empty/none\";"
    echo "Dir::Etc::parts \"$folder/empty\";"
    echo "Dir::Etc::sourcelist \"$folder/sources.list\";"
    echo "Dir::Etc::sourceparts \"$folder/empty\";"
    echo "Dir::Etc::trusted \"/usr/share/keyrings/$ID-archive-keyring.gpg\";" # beside trusted.gpg.d
    echo "Dir::State \"$folder/state\";"
    echo 'Dir::State::status "/var/lib/dpkg/status";'
    echo "Dir::Cache \"$folder/cache\";"
    echo 'APT::Sandbox::User "";'
    echo 'APT::Update::Error-Mode "any";'
    echo 'Acquire::Languages "none";'
    [ -z "$arch" ] || echo "APT::Architectures { \"$(dpkg --print-architecture)\"; \"$arch\"; };"
} >"$folder/apt.conf"
export APT_CONFIG="$folder/apt.conf"
apt-get -qq update || exit 3
apt-get -qq "$@"
