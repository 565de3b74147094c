// SPDX-License-Identifier: Apache-2.0
// Seeds, bytes put into an input, a check of what is printed, and the loop over the runs: the same
// in every fuzz driver.
//
// PROGRAM RUNS SEED-FILE... mutates the seeds, in the same way with the same CUTRACE_SEED. The
// number of the run that goes on is in the file named by CT_FUZZ_LAST, and
// "PROGRAM =RUN SEED-FILE..." repeats it alone.
#ifndef TESTS_SEEDS_H
#define TESTS_SEEDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/seed.h"

enum { MAX_SEEDS = 4096 };

static struct seed {
    uint8_t *bytes;
    size_t size;
} seeds[MAX_SEEDS];
static size_t seed_count;

static inline void add_seed(const uint8_t *bytes, size_t n) {
    struct seed *s = &seeds[seed_count];
    if (seed_count == MAX_SEEDS)
        return;
    s->bytes = malloc(n + 1);
    if (!s->bytes)
        abort();
    memcpy(s->bytes, bytes, n);
    s->size = n;
    seed_count++;
}

// What is drawn in a run follows from its number and the seed alone.
static inline void begin_draws(uint64_t number) {
    chance = number + (test_seed() << 32);
}

// Up to `most` bytes of a file; ends the program if it cannot be read.
static inline size_t read_seed(const char *path, uint8_t *to, size_t most) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    const size_t n = fread(to, 1, most, f);
    fclose(f);
    return n;
}

// Puts bytes at a place of an input of n, over or between what is there. Returns its new size.
static inline size_t insert(uint8_t *at, size_t n, size_t most, size_t place, const void *bytes,
                            size_t length) {
    if (n + length < most && draw(2)) {
        memmove(at + place + length, at + place, n - place);
        n += length;
    }
    if (place + length <= n)
        memcpy(at + place, bytes, length);
    return n;
}

static inline size_t cut_out(uint8_t *at, size_t n, size_t place, size_t length) {
    if (place + length >= n)
        return n;
    memmove(at + place, at + place + length, n - place - length);
    return n - length;
}

// Ends the program if what is printed has a control character of the input.
static inline void check_printed(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        // (1 to 4 are marks of the layout; the view's own line ends)
        if ((c < ' ' && c != '\n' && c > 4) || c == 0x7f || c == 0x1b)
            abort();
    }
}

// `load` adds the seeds of a file, `run` runs the input of a number; run 0 is a seed as it is.
static inline int fuzz(int argc, char **argv, void (*load)(const char *path),
                       void (*run)(uint64_t number)) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s RUNS|=RUN SEED-FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        load(argv[i]);
    if (argv[1][0] == '=') {
        run(strtoull(argv[1] + 1, NULL, 10));
        return 0;
    }
    const char *last = getenv("CT_FUZZ_LAST");
    FILE *f = last ? fopen(last, "w") : NULL;
    for (uint64_t i = 0, runs = strtoull(argv[1], NULL, 10); i < runs; i++) {
        if (f) {
            rewind(f);
            fprintf(f, "%llu\n", (unsigned long long)i);
            fflush(f);
        }
        run(i);
    }
    if (f)
        fclose(f);
    return 0;
}

#endif
