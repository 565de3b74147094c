#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs apt-get with source lines (and, on request, another architecture or suite) that the system's own configuration
# lacks, without editing or reading anything but its mirrors: lists and cache live under a folder of ours.
#
# Usage: apt-private.sh FOLDER [--arch ARCH] [--suite SUITE] update|source|download ARGUMENTS...
set -eu

folder=$1
shift
arch='' suite=''
while :; do
    case $1 in
    --arch) arch=$2 ;;
    --suite) suite=$2 ;;
    *) break ;;
    esac
    shift 2
done
# shellcheck disable=SC1091
. /etc/os-release

# Prints "TRUST-OPTIONS URI" for every system mirror of the distribution's release pocket, from one-line
# (.list) and deb822 (.sources) files.
system_mirrors() {
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$file" ] || continue
        sed -n 's/#.*//; s/^[[:space:]]*deb[[:space:]]\{1,\}//p' "$file" | awk -v suite="$VERSION_CODENAME" '{
            trust = ""
            if ($0 ~ /^\[/) {
                options = $0; sub(/\].*/, "", options); sub(/^[^]]*\][ \t]*/, "")
                if (match(options, /signed-by=[^ \t]*/)) trust = substr(options, RSTART, RLENGTH)
            }
            if ($2 == suite) print (trust == "" ? "-" : trust), $1
        }'
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] || continue
        awk -v suite="$VERSION_CODENAME" '
            function flush_stanza(   i, n, list) {
                if (types ~ /(^| )deb( |$)/ && (" " suites " ") ~ (" " suite " ") && enabled != "no") {
                    n = split(uris, list, " ")
                    for (i = 1; i <= n; i++) print (key == "" ? "-" : "signed-by=" key), list[i]
                }
                types = uris = suites = key = enabled = ""
            }
            /^[ \t]*#/ { next }
            /^[ \t]*$/ { flush_stanza(); next }
            { value = $0; sub(/^[^:]*:[ \t]*/, "", value); field = tolower($0); sub(/:.*/, "", field) }
            field == "types" { types = value }
            field == "uris" { uris = value }
            field == "suites" { suites = value }
            field == "signed-by" && value ~ /^\// { key = value }
            field == "enabled" { enabled = tolower(value) }
            END { flush_stanza() }' "$file"
    done
}

# Ubuntu keeps its sources in the main archive only and the binaries of other architectures in ports.
source_uri() {
    printf '%s\n' "$1" | sed 's|ports\.ubuntu\.com/ubuntu-ports|archive.ubuntu.com/ubuntu|'
}
binary_uri() {
    if [ "$ID" = ubuntu ] && [ "$arch" != amd64 ]; then
        echo http://ports.ubuntu.com/ubuntu-ports
    else
        printf '%s\n' "$1"
    fi
}

write_configuration() {
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/empty"
    mirrors=$(system_mirrors | sort -u)
    if [ -z "$mirrors" ]; then
        case $ID in
        ubuntu) mirrors='- http://archive.ubuntu.com/ubuntu' ;;
        *) mirrors='- http://deb.debian.org/debian' ;;
        esac
    fi
    printf '%s\n' "$mirrors" | while read -r trust uri; do
        [ "$trust" = - ] && trust=
        if [ -n "$suite" ]; then
            echo "deb ${trust:+[$trust]} $uri $suite main"
            continue
        fi
        echo "deb-src ${trust:+[$trust]} $(source_uri "$uri") $VERSION_CODENAME main"
        if [ -n "$arch" ]; then
            echo "deb [arch=$arch${trust:+ $trust}] $(binary_uri "$uri") $VERSION_CODENAME main universe"
        fi
    done >"$folder/sources.list"
    # Debian has no component "universe"; asking for it would be a warning per run.
    [ "$ID" = ubuntu ] || sed -i 's/ universe$//' "$folder/sources.list"
    {
        # The system's proxies and certificates, but none of its hooks.
        apt-config dump | grep -E '^Acquire::(http|https|ForceIPv|Retries|Check-)' || :
        echo "Dir::Etc::main \"$folder/empty/none\";"
        echo "Dir::Etc::parts \"$folder/empty\";"
        echo "Dir::Etc::sourcelist \"$folder/sources.list\";"
        echo "Dir::Etc::sourceparts \"$folder/empty\";"
        echo "Dir::State \"$folder/state\";"
        echo 'Dir::State::status "/var/lib/dpkg/status";'
        echo "Dir::Cache \"$folder/cache\";"
        echo 'APT::Sandbox::User "";'
        echo 'Acquire::Languages "none";'
        if [ -n "$arch" ]; then
            echo "APT::Architectures { \"$(dpkg --print-architecture)\"; \"$arch\"; };"
        fi
    } >"$folder/apt.conf"
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
write_configuration
export APT_CONFIG="$folder/apt.conf"
exec apt-get -qq "$@"
