#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: probe-demangler.sh CC LIBIBERTY
# Prints a header that says whether this machine's libiberty (may be empty: none) stops at Rust names that refer to
# themselves. Older ones, e.g. Ubuntu 22.04's, follow them until the stack is used up, and a trace from a stranger may hold such names.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/probe.c" <<'END'
#include <stddef.h>
#include <libiberty/demangle.h>
static void ignore(const char *text, size_t length, void *user) {
    (void)text, (void)length, (void)user;
}
int main(void) { // a path, a type and a constant that are said to stand where they themselves stand
    static const char *const endless[] = {"_RB_", "_RINvC1a1fB7_E", "_RINvC1a1fKB8_E"};
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++)
        (void)rust_demangle_callback(endless[i], 0, ignore, NULL);
    return 0;
}
END
stops=0
# (in the folder: a core goes with it)
if [ -n "$2" ] && "$1" "$folder/probe.c" "$2" -o "$folder/probe" 2>/dev/null &&
    (cd "$folder" && timeout 10 ./probe || false) >/dev/null 2>&1; then
    stops=1
fi
echo "#define CT_RUST_DEMANGLER_STOPS $stops"
