// SPDX-License-Identifier: Apache-2.0
// What names cost at record time: reads the symbol table of a file as the writer thread does, and
// names addresses. `symbols FILE ADDRESSES` writes the addresses that it named and their names to
// standard output.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pages.h"
#include "store/elf_symbols.h"

// Of the processor: what others do on the machine is not ours.
static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// A line of /proc/self/status, in KiB: VmRSS, what is resident now; VmHWM, the most that was.
static long status(const char *key) {
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtol(line + strlen(key) + 1, NULL, 10);
    if (f)
        fclose(f);
    return kib;
}

int main(int argc, char **argv) {
    static char name[CT_ELF_SYMBOLS_MAX_NAME + 1];
    const int n = argc == 3 ? atoi(argv[2]) : 0;
    uint64_t *at = calloc((size_t)n + 1, sizeof *at), distance;
    char *names = calloc((size_t)n + 1, 256);
    int named = 0;
    if (!n || !at || !names)
        return 2;
    for (int i = 0; i < n; i++)
        if (scanf("%" SCNx64, &at[i]) != 1)
            return 2;
    const long before = status("VmRSS");
    const double start = now_ms();
    struct ct_elf_symbols *s = ct_elf_symbols_load(argv[1], NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT);
    if (!s)
        return 1;
    const double loaded = now_ms();
    for (int i = 0; i < n; i++)
        if (ct_elf_symbols_find(s, at[i], name, &distance)) {
            named++;
            memcpy(names + (size_t)i * 256, name, strnlen(name, 255));
        }
    ct_elf_symbols_close_file(s);
    const double end = now_ms();
    const long high = status("VmHWM") - before;
    ct_elf_symbols_free(s);
    fprintf(stderr, "%.2f %.2f %ld %ld %d\n", loaded - start, end - loaded, high,
            status("VmRSS") - before, named);
    for (int i = 0; i < n; i++)
        printf("%" PRIx64 " %s\n", at[i], names + (size_t)i * 256);
    free(at);
    free(names);
    return 0;
}
