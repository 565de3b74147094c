// SPDX-License-Identifier: Apache-2.0
// What a file is, by its first bytes: people give a program what they have.
#ifndef CT_FILE_KIND_H
#define CT_FILE_KIND_H

#include <stddef.h>

enum ct_file_kind {
    CT_FILE_TEXT, // nothing below
    CT_FILE_TRACE,
    CT_FILE_JOURNAL,
    CT_FILE_PICKLE,
    CT_FILE_ZSTD, // not cutrace's
    CT_FILE_GZIP,
    CT_FILE_ZIP, // also what torch.save writes
    CT_FILE_BZIP2,
    CT_FILE_XZ,
    CT_FILE_UTF16, // a text of two bytes a letter, as PowerShell's > writes it
    CT_FILE_ELF,
    CT_FILE_METRICS, // of a server, as a text
    CT_FILE_BINARY,  // none of these, and no text
    CT_FILE_KINDS
};

enum { CT_FILE_KIND_BYTES = 4096 }; // as many of them are enough

// `n`: of the file's first bytes; fewer only if the file has no more.
enum ct_file_kind ct_file_kind_find(const void *bytes, size_t n);
// What is to be done with a file of this kind where a text is expected: "is gzip; use: zcat FILE |
// ..."; NULL of a text, a pickle and a trace.
const char *ct_file_kind_remedy(enum ct_file_kind kind);

#endif
