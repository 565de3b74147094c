// SPDX-License-Identifier: Apache-2.0
// A zip file on the command line stands for the traces in it, which are read where they lie.
#include <string.h>

#include "base/input_file.h"
#include "bundle/bundle.h"
#include "cli/argument_table.h"
#include "cli/terminal.h"
#include "read/zip_read.h"

static void add_path(struct ct_bundle_paths *l, char *path) {
    CT_HEAP_GROW(l->paths, l->count, l->capacity);
    l->paths[l->count++] = path;
}

static void add_traces(struct ct_bundle_paths *l, const struct ct_zip *zip, const char *only) {
    for (size_t i = 0; i < zip->count; i++) {
        const struct ct_zip_entry *e = &zip->traces[i];
        char *name = NULL;
        if (only && strcmp(only, e->name) != 0)
            continue;
        if (asprintf(&name, "%s/%s", zip->path, e->name) < 0)
            ct_heap_exhausted();
        ct_source_add_name(name, zip->fd, e->begin, e->bytes);
        add_path(l, name);
    }
}

// A bundle's logs stand beside its traces, as --log does: views conclude from the zip file what its
// summary.md does. A bundle of it takes them as they are by --log.
static void take_logs(struct ct_arguments *o, const struct ct_zip *zip) {
    static char paths[CT_ZIP_LOGS][CT_MEMORY_FILE_PATH]; // (as files last until the program ends)
    int n = 0;
    for (int i = 0; i < CT_ZIP_LOGS; i++) {
        struct ct_buffer text = {0};
        struct ct_error error;
        if (!*zip->logs[i].name)
            continue;
        if (ct_zip_read_log(zip, &zip->logs[i], &text, &error)) {
            ct_terminal_warn(error.text);
        } else {
            (void)ct_memory_file_make(text.at, text.n, paths[n]);
            o->log[n] = paths[n];
            n++;
        }
        free(text.at);
    }
}

static int wants_logs(const struct ct_arguments *o) {
    return o->path_count == 1 && !o->log[0] && o->command != CT_COMMAND_bundle &&
           ct_argument_table_takes(o->command, CT_ARGUMENT_LOG);
}

// Adds the traces of a zip file, or the one that is named.
static int add_zip(struct ct_bundle_paths *l, struct ct_arguments *o, const char *path,
                   const char *only, struct ct_error *error) {
    struct ct_zip zip;
    const size_t before = l->count;
    if (ct_zip_open(&zip, path, error)) {
        ct_zip_close(&zip, 0);
        return -1;
    }
    add_traces(l, &zip, only);
    if (wants_logs(o))
        take_logs(o, &zip);
    ct_zip_close(&zip, l->count > before);
    if (l->count > before)
        return 0;
    if (o->command == CT_COMMAND_explain && !only) { // it may be something else, and says so
        add_path(l, (char *)path);
        return 0;
    }
    return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: no trace%s%.100s is in this zip file",
                        path, only ? " named " : "", only ? only : "");
}

// FILE of FILE/NAME, if that is a zip file; NULL: it is not. The caller frees it.
static char *find_zip(const char *path) {
    const char *slash = strrchr(path, '/');
    char *file = slash && slash != path ? strndup(path, (size_t)(slash - path)) : NULL;
    if (file && ct_zip_is(file))
        return file;
    free(file);
    return NULL;
}

static int add_any(struct ct_bundle_paths *l, struct ct_arguments *o, char *path,
                   struct ct_error *error) {
    if (strcmp(path, "-") != 0 && ct_zip_is(path))
        return add_zip(l, o, path, NULL, error);
    char *zip = find_zip(path);
    if (!zip) {
        add_path(l, path);
        return 0;
    }
    const int status = add_zip(l, o, zip, strrchr(path, '/') + 1, error);
    free(zip);
    return status;
}

// Commands that write one file of one trace.
static int takes_one(const struct ct_arguments *o) {
    return o->output && o->command != CT_COMMAND_html && o->command != CT_COMMAND_bundle &&
           o->command != CT_COMMAND_copy;
}

int ct_bundle_expand(struct ct_bundle_paths *l, struct ct_arguments *o, struct ct_error *error) {
    *l = (struct ct_bundle_paths){0};
    for (int i = 0; i < o->path_count; i++)
        if (add_any(l, o, o->paths[i], error))
            return -1;
    if (takes_one(o) && l->count > 1)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%s takes one trace; name one of those in the zip file: %.300s",
                            ct_argument_table_name(o->command), l->paths[0]);
    o->paths = l->paths;
    o->path_count = (int)l->count;
    return 0;
}

void ct_bundle_paths_free(struct ct_bundle_paths *l) {
    free(l->paths);
}
