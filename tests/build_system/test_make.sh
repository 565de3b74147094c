#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What make rebuilds, and what it installs.
set -u

root=${CUTRACE_ROOT:?run by make check}
build=${CUTRACE_BUILD:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

# The switches of the make that runs this test (CC=, WERROR=, ...), without its job server.
MAKEFLAGS=$(printf '%s' "${MAKEFLAGS:-}" | sed -E 's/^([a-z]*)s/\1/; s/(^| )-?-?j[0-9]*//; s/--jobserver-[a-z]*=[^ ]*//; s/(^| )BUILD=[^ ]*//')
export MAKEFLAGS
unset MAKELEVEL MFLAGS

check() { # NAME PROBLEM-TEXT (empty: passed)
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | head -n 40 | sed 's/^/#   /'
    fi
}
# Plans are made on a copy, since some recipes run under make -n too and others are using the build.
mkdir "$work/copy"
find "$build" -mindepth 1 -maxdepth 1 ! -name deps ! -name tests -exec cp -a {} "$work/copy/" \;
find "$work/copy" -name '*.d' -exec sed -i "s|${build#"$root"/}/|$work/copy/|g" {} + -exec touch -d @0 {} +
plan() { # what make would compile or link, given changed files
    make -n -C "$root" "BUILD=$work/copy" "$@" 2>&1 | grep -E ' -o [^ ]+' | grep -oE '[^ ]+$|-o [^ ]+' |
        sed -n 's/^-o //p' | sort -u
}
lacks() { # NAME LIST: says so if no line of the list ends in the name
    printf '%s\n' "$2" | grep -qE "(^|/)$1\$" || echo "$1 would not be rebuilt"
}

echo "1..10"
check "after a build nothing is left to do" "$(plan all)"

list=$(plan -W preload/intercept/hooks.def all)
check "a changed hook row rebuilds the library" "$(lacks libcutrace.so "$list")"
list=$(plan -W include/cutrace/format/events.def all)
check "a changed event rebuilds both sides of the trace" \
    "$(lacks libcutrace.so "$list"; lacks cutrace-report "$list")"

# Flags, on one object in a build folder of its own.
object=$work/b/preload/base/glibc_compat.o
one() {
    make -C "$root" "BUILD=$work/b" "$@" "$object" 2>&1 | grep -c 'glibc_compat\.o$'
}
one >/dev/null
check "the second time nothing is compiled" "$([ "$(one)" = 0 ] || echo 'compiled again')"
check "changed flags compile again" "$([ "$(one CFLAGS=-DCT_OTHER)" = 1 ] || echo 'not compiled')"

# The suites get CUDA_INC as an absolute path: by another name for the same folder they would rebuild what others are using.
flags() { # FOLDER
    make -s -C "$root" show-FLAGS_TEXT CUDA_INC="$1"
}
check "a relative CUDA_INC and its absolute path are the same flags" \
    "$(diff <(flags build/cuda/include) <(flags "$root/build/cuda/include"))"

make -s -C "$root" "BUILD=${build#"$root"/}" DESTDIR="$work/root" PREFIX=/opt/cutrace install >"$work/log" 2>&1
check "install puts every file under DESTDIR and PREFIX" \
    "$(cd "$work/root" && diff <(find . -type f | LC_ALL=C sort) - <<'LIST'
./opt/cutrace/bin/cutrace
./opt/cutrace/bin/cutrace-report
./opt/cutrace/include/cutrace/cutrace.h
./opt/cutrace/lib/libcutrace.so
./opt/cutrace/share/bash-completion/completions/cutrace
./opt/cutrace/share/doc/cutrace/FORMAT.md
./opt/cutrace/share/doc/cutrace/LICENSE
./opt/cutrace/share/doc/cutrace/README.md
./opt/cutrace/share/man/man1/cutrace-report.1
./opt/cutrace/share/man/man1/cutrace.1
./opt/cutrace/share/man/man5/cutrace-trace.5
./opt/cutrace/share/zsh/site-functions/_cutrace
LIST
)$([ -e "$work/root/opt" ] || cat "$work/log")"
# shellcheck disable=SC2016 # the launched shell expands it
seen=$("$work/root/opt/cutrace/bin/cutrace" run -- sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
check "the installed launcher finds the installed library" \
    "$([ "$(realpath -q "${seen%%:*}")" = "$work/root/opt/cutrace/lib/libcutrace.so" ] || echo "LD_PRELOAD=$seen")"
make -s -C "$root" "BUILD=${build#"$root"/}" DESTDIR="$work/root" PREFIX=/opt/cutrace uninstall >/dev/null 2>&1
check "uninstall removes what install put there" "$(find "$work/root" ! -type d)"

# What is optional at build time: whole in make check-long, in make check the files that it changes.
plain() {
    make -s -C "$root" "BUILD=$work/plain" CFLAGS=-DCT_WITHOUT_ELFUTILS LIBIBERTY= "$@" >"$work/log" 2>&1
}
if [ -n "${CUTRACE_FULL:-}" ]; then
    plain "$work/plain/cutrace-report"
    check "without elfutils and libiberty there is a report all the same, which says what it lacks" \
        "$("$work/plain/cutrace-report" --version 2>&1 | grep -q '^lines: .*built without elfutils' || cat "$work/log"
        "$work/plain/cutrace-report" "$root/tests/report/golden/traces/mixed.zst" 2>&1 | grep -q . || echo 'it does not report'
        "$work/plain/cutrace-report" copy --symbolize -o "$work/x" "$root/tests/report/golden/traces/mixed.zst" 2>&1 |
            grep -q 'built without elfutils' || echo 'symbolize does not say why')"
else
    files=$(cd "$root" && grep -lE 'symbols/libdw\.h"|demangler\.h' -r tools --include='*.c' | sed "s|^|$work/plain/|; s|c\$|o|")
    # shellcheck disable=SC2086 # words
    check "without elfutils and libiberty the files that use them compile all the same" \
        "$([ -n "$files" ] || echo 'no file uses them'; plain $files || cat "$work/log")"
fi
