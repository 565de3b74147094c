// SPDX-License-Identifier: Apache-2.0
#include "cli/terminfo.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"

#define DEFAULT_FOLDERS "/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo"
enum {
    MAGIC = 0432,       // numbers of two bytes
    MAGIC_WIDE = 01036, // of four
    MAX_COLORS = 13,    // the index of max_colors among the numbers
    ENTRY = 32768,      // the most that an entry has
};

static unsigned get_short(const unsigned char *at) {
    return at[0] | (unsigned)at[1] << 8;
}

// Magic number; sizes of the names, booleans, numbers, strings, and of the strings' text. After
// them names, booleans and, at an even place, numbers; one that is absent or negative is none.
static int read_colors(const unsigned char *entry, size_t size) {
    if (size < 12 || (get_short(entry) != MAGIC && get_short(entry) != MAGIC_WIDE))
        return -1;
    const size_t width = get_short(entry) == MAGIC ? 2 : 4;
    const size_t before = 12 + get_short(entry + 2) + get_short(entry + 4);
    const size_t at = before + before % 2 + MAX_COLORS * width;
    if (get_short(entry + 6) <= MAX_COLORS || at + width > size)
        return 0;
    const int is_negative = entry[at + width - 1] & 0x80;
    const unsigned high = width == 4 ? get_short(entry + at + 2) << 16 : 0;
    return is_negative ? 0 : (int)(get_short(entry + at) | high);
}

static int read_entry(const char *path) {
    static unsigned char entry[ENTRY];
    const char *why;
    FILE *f = ct_input_file_open_stream(path, &why);
    if (!f)
        return -1;
    const size_t n = fread(entry, 1, sizeof entry, f);
    (void)fclose(f);
    return read_colors(entry, n);
}

// In a folder that is called as the first letter, or as its number.
static int read_from(const char *folder, int n, const char *terminal) {
    const unsigned char letter = (unsigned char)*terminal;
    char path[4096];
    (void)snprintf(path, sizeof path, "%.*s/%c/%s", n, folder, letter, terminal);
    const int colors = read_entry(path);
    if (colors >= 0)
        return colors;
    (void)snprintf(path, sizeof path, "%.*s/%02x/%s", n, folder, letter, terminal);
    return read_entry(path);
}

static const char *get(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

int ct_terminfo_count_colors(const char *terminal) {
    char list[8192];
    int colors = -1;
    if (!*terminal || strchr(terminal, '/'))
        return -1;
    (void)snprintf(list, sizeof list, "%s:%s/.terminfo:%s:" DEFAULT_FOLDERS, get("TERMINFO"),
                   get("HOME"), get("TERMINFO_DIRS"));
    for (const char *at = list; *at && colors < 0;) {
        const size_t n = strcspn(at, ":");
        if (n)
            colors = read_from(at, (int)n, terminal);
        at += n + (at[n] == ':');
    }
    return colors;
}
