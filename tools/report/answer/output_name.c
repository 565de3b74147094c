// SPDX-License-Identifier: Apache-2.0
#include "answer/output_name.h"

#include <stdio.h>
#include <string.h>

#include "read/new_file.h"

int ct_output_name(const struct ct_arguments *o, const char *trace, const char *ending, char *to,
                   size_t size, struct ct_error *error) {
    const char *slash = strrchr(trace, '/'), *name = slash ? slash + 1 : trace;
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".zst") == 0)
        length -= 4;
    const int n = o->output ? snprintf(to, size, "%s", o->output)
                            : snprintf(to, size, "%.*s%s", (int)length, name, ending);
    if (!o->output && strcmp(trace, "-") == 0)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: name the new file with --output=FILE",
                            ct_argument_table_name(o->command));
    if (n < 0 || (size_t)n >= size)
        return ct_error_set(error, CT_EXIT_OUTPUT, "%.400s: the name is too long", to);
    if (strcmp(to, "-") != 0 && ct_new_file_would_replace(to) && !o->force)
        return ct_error_set(error, CT_EXIT_USAGE, "%.400s: exists already; --force replaces it",
                            to);
    return 0;
}
