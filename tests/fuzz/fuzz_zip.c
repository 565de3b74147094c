// SPDX-License-Identifier: Apache-2.0
// Feeds mutated zip files to what reads bundles: the list of traces ends, and each trace lies
// within the file. The traces themselves are fuzz_reader's.
#include <sys/mman.h>
#include <unistd.h>

#include "seeds.h"

#include "read/zip_read.h"

enum { INPUT_MAX = 1 << 17 };

static void read_input(const uint8_t *bytes, size_t n) {
    char path[64];
    struct ct_zip zip;
    struct ct_error error;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ct_zip_is(path) && ct_zip_open(&zip, path, &error) == 0) {
        for (size_t i = 0; i < zip.count; i++)
            if (zip.traces[i].begin > n || zip.traces[i].bytes > n - zip.traces[i].begin ||
                strchr(zip.traces[i].name, '/'))
                abort();
        ct_zip_close(&zip, 0);
    } else if (ct_zip_is(path)) {
        ct_zip_close(&zip, 0);
    }
    close(fd);
}

static void load(const char *path) {
    static uint8_t file[INPUT_MAX];
    add_seed(file, read_seed(path, file, sizeof file));
}

// Fields of the heads and of the directory change, which lie at the file's ends.
static size_t mutate(uint8_t *at, size_t n) {
    static const uint32_t values[] = {0, 1, 4, 8, 22, 30, 46, 255, 65535, INT32_MAX, UINT32_MAX};
    for (uint64_t times = 1 + draw(4); times--;) {
        const size_t near = n < 400 ? n : 400;
        const size_t place = draw(2) ? n - 1 - draw(near) : draw(near);
        const uint32_t value =
            draw(2) ? values[draw(sizeof values / sizeof *values)] : (uint32_t)draw(2 * n);
        const size_t length = draw(2) ? 2 : 4;
        if (place + length <= n)
            memcpy(at + place, &value, length);
    }
    return draw(8) ? n : n - draw(n - 1);
}

static void run(uint64_t number) {
    static uint8_t input[INPUT_MAX];
    begin_draws(number);
    const struct seed *s = &seeds[number % seed_count];
    memcpy(input, s->bytes, s->size);
    read_input(input, number ? mutate(input, s->size) : s->size);
}

int main(int argc, char **argv) {
    return fuzz(argc, argv, load, run);
}
