#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fills a folder with links to the commands that a fresh Debian or Ubuntu has after `setup.sh build`: those of the packages that
# every installation has, and of what the build list needs. As PATH it hides every optional tool of this machine.
#
# Usage: newcomer-path.sh FOLDER     Exit 3: this is neither Debian nor Ubuntu.
set -eu

folder=${1:?folder}
scripts=$(cd "$(dirname "$0")" && pwd)
command -v dpkg-query >/dev/null 2>&1 || { echo "newcomer-path: no dpkg-query here" >&2; exit 3; }
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The packages: what is essential or required, the build list, and what they depend on, as far as it is installed.
"$scripts/setup.sh" --list build >"$work/wanted"
# shellcheck disable=SC2016 # dpkg-query's variables
dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Essential}\t${Priority}\t${Provides}\t${Pre-Depends}, ${Depends}\n' >"$work/installed"
awk -F '\t' -v wanted="$work/wanted" '
    function add(name) { # a package, or what provides it
        if (name in provided) {
            split(provided[name], by, " ")
            for (k in by) if (!(by[k] in chosen)) { chosen[by[k]] = 1; queue[++last] = by[k] }
        }
    }
    $1 != "installed" { next }
    {
        provided[$2] = provided[$2] " " $2
        needs[$2] = $6
        if ($3 == "yes" || $4 == "required") base[$2] = 1
        n = split($5, list, /, */)
        for (i = 1; i <= n; i++) { sub(/[ (].*/, "", list[i]); if (list[i] != "") provided[list[i]] = provided[list[i]] " " $2 }
    }
    END {
        for (name in base) add(name)
        while ((getline name <wanted) > 0) add(name)
        for (first = 1; first <= last; first++) {
            n = split(needs[queue[first]], list, /[,|] */)
            for (i = 1; i <= n; i++) { sub(/^ */, "", list[i]); sub(/[ (:].*/, "", list[i]); add(list[i]) }
        }
        for (name in chosen) print name
    }' "$work/installed" | sort >"$work/chosen"

# Their files. (A package of several architectures has its own list for each; /bin may be a link to /usr/bin.)
while read -r package; do
    cat /var/lib/dpkg/info/"$package".list /var/lib/dpkg/info/"$package":*.list 2>/dev/null || :
done <"$work/chosen" | sed -n 's,^/usr/,/,; /^\/s\{0,1\}bin\/./p' | sort -u >"$work/files"

# Commands are often links of the alternatives: what counts is the file at their end. Programs come before the same of sbin.
for place in /usr/sbin /sbin /usr/bin /bin; do
    for program in "$place"/*; do
        if [ -x "$program" ]; then printf '%s\t%s\n' "$program" "$(basename "$program")"; fi
    done
done >"$work/programs"
cut -f 1 "$work/programs" | tr '\n' '\0' | xargs -0 realpath -m | sed 's,^/usr/,/,' | paste "$work/programs" - |
    awk -F '\t' -v files="$work/files" '
        BEGIN { while ((getline line <files) > 0) there[line] = 1 }
        { path = $1; sub("^/usr/", "/", path) }
        $3 in there || path in there { last[$2] = $1 }
        END { for (name in last) print last[name] }' | xargs -r -d '\n' ln -sf -t "$folder"
