// SPDX-License-Identifier: Apache-2.0
#include "write/driver_release.h"

#include <string.h>

#include "base/read_file.h"
#include "write/info_table.h"

enum { MOST = 40 }; // letters of a release

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ...": the
// first word that begins with a digit and has a point.
size_t ct_driver_release_find(const char *text, size_t n, const char **release) {
    const char *end = memchr(text, '\n', n);
    end = end ? end : text + n;
    for (const char *at = text; at < end;) {
        const char *behind = memchr(at, ' ', (size_t)(end - at));
        behind = behind ? behind : end;
        const size_t length = (size_t)(behind - at);
        if (length && length <= MOST && is_digit(*at) && memchr(at, '.', length)) {
            *release = at;
            return length;
        }
        at = behind + (behind < end);
    }
    return 0;
}

void ct_driver_release_publish(void) {
    static int done;
    char text[512];
    const char *release;
    if (done)
        return;
    done = 1;
    const size_t n = ct_read_file("/proc/driver/nvidia/version", text, sizeof text);
    const size_t length = ct_driver_release_find(text, n, &release);
    if (length)
        ct_info_set("nvidia.driver_version", "%.*s", (int)length, release);
}
