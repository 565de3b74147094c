// SPDX-License-Identifier: Apache-2.0
#include "read/file_kind.h"

#include <cutrace/format/format.h>
#include <cutrace/format/journal.h>
#include <string.h>

#include "base/utf8.h"

#define MAGIC(text) text, sizeof text - 1

// The first row that fits counts. A frame of zstd may be skipped; cutrace's begins with one.
static const struct {
    enum ct_file_kind kind;
    size_t at;
    const char *magic;
    size_t length;
} magics[] = {
    {CT_FILE_TRACE, 8, MAGIC(CT_CHUNK_MAGIC)},
    {CT_FILE_TRACE, 0, MAGIC("\x5f\x2a\x4d\x18")}, // a filler where old chunks were overwritten
    {CT_FILE_JOURNAL, 0, MAGIC(CT_JOURNAL_MAGIC)},
    {CT_FILE_PICKLE, 0, MAGIC("\x80\x02")},
    {CT_FILE_PICKLE, 0, MAGIC("\x80\x03")},
    {CT_FILE_PICKLE, 0, MAGIC("\x80\x04")},
    {CT_FILE_PICKLE, 0, MAGIC("\x80\x05")},
    {CT_FILE_ZSTD, 0, MAGIC("\x28\xb5\x2f\xfd")},
    {CT_FILE_ZSTD, 1, MAGIC("\x2a\x4d\x18")},
    {CT_FILE_GZIP, 0, MAGIC("\x1f\x8b")},
    {CT_FILE_ZIP, 0, MAGIC("PK\x03\x04")},
    {CT_FILE_BZIP2, 0, MAGIC("BZh")},
    {CT_FILE_XZ, 0,
     MAGIC("\xfd"
           "7zXZ")},
    {CT_FILE_UTF16, 0, MAGIC("\xff\xfe")},
    {CT_FILE_UTF16, 0, MAGIC("\xfe\xff")},
    {CT_FILE_ELF, 0,
     MAGIC("\x7f"
           "ELF")},
    // A server's Prometheus page, and scrapes of it.
    {CT_FILE_METRICS, 0, MAGIC("# cutrace record-metrics")},
    {CT_FILE_METRICS, 0, MAGIC("# scraped ")},
    {CT_FILE_METRICS, 0, MAGIC("# HELP ")},
    {CT_FILE_METRICS, 0, MAGIC("# TYPE ")},
};

static const char *const remedies[CT_FILE_KINDS] = {
    [CT_FILE_JOURNAL] = "is the journal of a trace; name the trace: cutrace-report summary TRACE",
    [CT_FILE_ZSTD] = "is zstd; use: zstd -dc FILE | cutrace-report explain -",
    [CT_FILE_GZIP] = "is gzip; use: zcat FILE | cutrace-report explain -",
    [CT_FILE_ZIP] = "is a zip archive (as torch.save writes, too); unpack it first",
    [CT_FILE_BZIP2] = "is bzip2; use: bzcat FILE | cutrace-report explain -",
    [CT_FILE_XZ] = "is xz; use: xzcat FILE | cutrace-report explain -",
    [CT_FILE_UTF16] = "is UTF-16; use: iconv -f UTF-16 -t UTF-8 FILE | cutrace-report explain -",
    [CT_FILE_ELF] = "is a program or a core dump, no text",
    [CT_FILE_METRICS] = "has a server's metrics; use: cutrace-report explain --log=FILE TRACE",
    [CT_FILE_BINARY] = "is neither a text nor a memory snapshot of PyTorch",
};

// Zeros and bytes that are no UTF-8 are rare in logs, also in those with other alphabets, colours
// and control characters.
static int is_binary(const unsigned char *bytes, size_t n) {
    size_t strange = 0;
    uint32_t code;
    if (n < 32)
        return 0;
    for (size_t i = 0; i < n;) {
        const unsigned one = ct_utf8_decode(bytes + i, n - i, &code);
        strange += !one || !bytes[i];
        i += one ? one : 1;
    }
    return strange * 10 > n * 3;
}

enum ct_file_kind ct_file_kind_find(const void *bytes, size_t n) {
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (n >= magics[i].at + magics[i].length &&
            memcmp((const char *)bytes + magics[i].at, magics[i].magic, magics[i].length) == 0)
            return magics[i].kind;
    return is_binary(bytes, n) ? CT_FILE_BINARY : CT_FILE_TEXT;
}

const char *ct_file_kind_remedy(enum ct_file_kind kind) {
    return remedies[kind];
}
