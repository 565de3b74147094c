// SPDX-License-Identifier: Apache-2.0
// Runs scenarios over the driver API: driver WAY SCENARIO..., driver_elf SCENARIO...
#include "cu.h"

int main(int argc, char **argv) {
    int first = 1;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
#ifndef WAYS_ELF
    if (argc < 2)
        return 2;
    load(argv[1]);
    first = 2;
#endif
    for (int i = first; i < argc; i++) {
        const struct scenario *s = scenarios;
        while (s->name && strcmp(s->name, argv[i]))
            s++;
        if (!s->name) {
            fprintf(stderr, "unknown scenario %s\n", argv[i]);
            return 2;
        }
        s->run();
    }
    return 0;
}
