// SPDX-License-Identifier: Apache-2.0
// formats.def and tables.def as data.
#include "export/formats.h"

const struct ct_export_format_row ct_export_formats[CT_EXPORT_FORMATS] = {
#define CT_EXPORT_FORMAT(name, ending, output, options, help) \
    {#name, ending, help, CT_OUTPUT_##output, options},
#include "export/formats.def"
};

const char ct_export_format_names[] =
#define CT_EXPORT_FORMAT(name, ending, output, options, help) "|" #name
#include "export/formats.def"
    ;

const char ct_export_table_names[] =
#define CT_EXPORT_TABLE(name, help) "|" #name
#include "export/tables.def"
    ;
