// SPDX-License-Identifier: Apache-2.0
// The formats of `export` and their tables as data.
#ifndef CT_FORMATS_H
#define CT_FORMATS_H

// Options that not every format has a use for.
enum { CT_EXPORT_AT = 1, CT_EXPORT_TABLE = 2, CT_EXPORT_EVENTS = 4 };

enum ct_export_output { CT_OUTPUT_STREAM, CT_OUTPUT_FILE, CT_OUTPUT_SNAPSHOT };

enum ct_export_format {
#define CT_EXPORT_FORMAT(name, ending, output, options, help) CT_EXPORT_##name,
#include "export/formats.def"
    CT_EXPORT_FORMATS
};

struct ct_export_format_row {
    const char *name, *ending, *help;
    enum ct_export_output output;
    unsigned options;
};
extern const struct ct_export_format_row ct_export_formats[CT_EXPORT_FORMATS];

// The names of formats, and of tables, with "|" before each: a choice of the command line is the
// string after the first one.
extern const char ct_export_format_names[], ct_export_table_names[];

#endif
