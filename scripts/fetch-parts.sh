# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that fetch parts which tests can do without, each into a folder of its own.

fetch_part() { # FOLDER NAME: runs fetch_NAME in a new folder, which gets its name when it is complete
    [ -e "$1/$2" ] && return
    rm -rf "${1:?}/$2.new" "$1/$2.skipped"
    mkdir "$1/$2.new"
    if (cd "$1/$2.new" && "fetch_$(echo "$2" | tr - _)") >"$1/$2.log" 2>&1 9>&-; then
        mv "$1/$2.new" "$1/$2"
    else
        grep -m 1 -iE 'error|not found' "$1/$2.log" >"$1/$2.skipped" || tail -n 1 "$1/$2.log" >"$1/$2.skipped"
        rm -rf "${1:?}/$2.new"
    fi
}

fetch_parts() { # FOLDER PINS NAME...: all parts anew where PINS are others than those of the last time; FOLDER exists
    parts=$1
    pins=$2
    shift 2
    exec 9>"$parts.lock"
    flock 9 # two suites may ask at the same time
    [ "$(cat "$parts/pins" 2>/dev/null)" = "$pins" ] || rm -rf "${parts:?}"/*
    for part in "$@"; do fetch_part "$parts" "$part"; done
    echo "$pins" >"$parts/pins"
}
