// SPDX-License-Identifier: Apache-2.0
// A stream into a new file (read/new_file.h), for formats that are written from the first byte to
// the last.
#ifndef CT_OUTPUT_H
#define CT_OUTPUT_H

#include <stdio.h>

#include "read/new_file.h"

// The file must be open, and stay so until the stream is closed. A failed write is an error of the
// stream (ferror), and `error` of the file has the reason.
FILE *ct_output_open(struct ct_new_file *file);

#endif
