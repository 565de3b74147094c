// SPDX-License-Identifier: Apache-2.0
// Short names of source files: as many components of the path, from its end, as tell the file from
// all other files of the trace: "adam.py", but "nn/functional.py" beside "linalg/functional.py".
#ifndef CT_FILE_NAMES_H
#define CT_FILE_NAMES_H

#include "read/definitions.h"

struct ct_file_names {
    uint32_t *offset; // by string: where the short name begins in the path, + 1; 0: no file
    size_t count;     // of strings, when the names were found
};

// Returns where the short name of a file (a string) begins in its path. A name is found once; it
// depends on the definitions alone, so that it is the same in all views.
size_t ct_file_names_offset(struct ct_file_names *f, const struct ct_definitions *n, uint32_t file);
void ct_file_names_free(struct ct_file_names *f);

#endif
