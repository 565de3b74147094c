// SPDX-License-Identifier: Apache-2.0
#include "run/trace_list.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ct_trace_list_create(struct ct_trace_list *list) {
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *folder = folders[i];
        if (!folder || *folder != '/' || strlen(folder) > sizeof list->path - 32)
            continue;
        (void)snprintf(list->path, sizeof list->path, "%s/cutrace-run.XXXXXX", folder);
        const int fd = mkostemp(list->path, O_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            return 0;
        }
    }
    *list->path = 0;
    return -1;
}

static char *read_all(const char *path, size_t *length) {
    size_t capacity = 4096, n = 0;
    char *text = malloc(capacity);
    FILE *f = fopen(path, "re");
    while (f && text && (n += fread(text + n, 1, capacity - n - 1, f)) == capacity - 1) {
        char *longer = realloc(text, capacity *= 2);
        if (!longer)
            free(text);
        text = longer;
    }
    if (f)
        (void)fclose(f);
    if (text)
        text[n] = 0;
    *length = text ? n : 0;
    return text;
}

// A process that replaces itself may begin a second trace under the same name.
static int is_new(const struct ct_trace_list *list, const char *trace) {
    for (size_t i = 0; i < list->count; i++)
        if (list->traces[i] && strcmp(list->traces[i], trace) == 0)
            return 0;
    return 1;
}

void ct_trace_list_take(struct ct_trace_list *list) {
    size_t length, most = 0;
    if (!*list->path)
        return;
    list->text = read_all(list->path, &length);
    (void)unlink(list->path);
    for (size_t i = 0; i < length; i++)
        most += list->text[i] == 0;
    list->traces = calloc(most + 1, sizeof *list->traces);
    for (size_t at = 0; list->traces && at < length && list->count < most;
         at += strlen(list->text + at) + 1)
        if (list->text[at] && is_new(list, list->text + at))
            list->traces[list->count++] = list->text + at;
}

void ct_trace_list_free(struct ct_trace_list *list) {
    free(list->traces);
    free(list->text);
}
