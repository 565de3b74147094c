// SPDX-License-Identifier: Apache-2.0
// Files that share the ends of their paths are neighbours if the paths are sorted from their ends,
// component by component: each is compared with its two neighbours only.
#include "symbols/file_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

static int is_slash(const struct ct_string *s, uint32_t i) {
    return s->at[i] == '/';
}

// Compares from the end. A path that ends comes first, then one whose component ends, so that the
// paths below a common folder are together.
static int compare_ends(const void *a, const void *b, void *definitions) {
    const struct ct_definitions *n = definitions;
    const struct ct_string *x = &n->strings[*(const uint32_t *)a];
    const struct ct_string *y = &n->strings[*(const uint32_t *)b];
    for (uint32_t i = 1; i <= x->length && i <= y->length; i++) {
        const unsigned char c = (unsigned char)x->at[x->length - i];
        const unsigned char d = (unsigned char)y->at[y->length - i];
        if (c != d && (c == '/' || d == '/'))
            return c == '/' ? -1 : 1;
        if (c != d)
            return c < d ? -1 : 1;
    }
    return (x->length > y->length) - (x->length < y->length);
}

// Returns how many bytes of whole components two paths have in common at their ends.
static uint32_t common_end(const struct ct_string *x, const struct ct_string *y) {
    uint32_t i = 0, whole = 0;
    while (i < x->length && i < y->length && x->at[x->length - 1 - i] == y->at[y->length - 1 - i]) {
        if (is_slash(x, x->length - 1 - i))
            whole = i;
        i++;
    }
    const int x_ends = i == x->length || is_slash(x, x->length - 1 - i);
    const int y_ends = i == y->length || is_slash(y, y->length - 1 - i);
    return x_ends && y_ends ? i : whole;
}

// Returns where the last component begins that ends at `end`; a path may begin with a slash.
static uint32_t find_component(const struct ct_string *s, uint32_t end) {
    while (end && !is_slash(s, end - 1))
        end--;
    return end;
}

// Returns where a path has one component more than `common` bytes at its end, or all.
static uint32_t find_offset(const struct ct_string *s, uint32_t common) {
    static const char init[] = "__init__.py";
    const uint32_t length = sizeof init - 1;
    // The name of a package's own file says nothing without the package.
    if (common < length && s->length >= length &&
        memcmp(s->at + s->length - length, init, length) == 0)
        common = length;
    if (common >= s->length)
        return 0;
    return common ? find_component(s, s->length - common - 1) : find_component(s, s->length);
}

static uint32_t *list_files(const struct ct_definitions *n, size_t *count) {
    char *is_file = ct_heap_alloc_zeroed(n->string_count, 1);
    for (size_t i = 0; i < n->frame_count; i++)
        is_file[n->frames[i].file] = 1;
    for (size_t i = 0; i < n->location_count; i++)
        is_file[n->locations[i].file] = 1;
    uint32_t *files = ct_heap_resize(NULL, n->string_count, sizeof *files);
    *count = 0;
    for (uint32_t i = 1; i < n->string_count; i++)
        if (is_file[i])
            files[(*count)++] = i;
    free(is_file);
    return files;
}

static void find_names(struct ct_file_names *f, const struct ct_definitions *n) {
    size_t count;
    uint32_t *files = list_files(n, &count), before = 0;
    ct_file_names_free(f);
    f->count = n->string_count;
    f->offset = ct_heap_alloc_zeroed(f->count, sizeof *f->offset);
    qsort_r(files, count, sizeof *files, compare_ends, (void *)n);
    for (size_t i = 0; i < count; i++) {
        const struct ct_string *s = &n->strings[files[i]];
        const uint32_t after = i + 1 < count ? common_end(s, &n->strings[files[i + 1]]) : 0;
        f->offset[files[i]] = find_offset(s, before > after ? before : after) + 1;
        before = after;
    }
    free(files);
}

size_t ct_file_names_offset(struct ct_file_names *f, const struct ct_definitions *n,
                            uint32_t file) {
    if (f->count != n->string_count)
        find_names(f, n);
    return f->offset[file] ? f->offset[file] - 1 : 0;
}

void ct_file_names_free(struct ct_file_names *f) {
    free(f->offset);
    *f = (struct ct_file_names){0};
}
