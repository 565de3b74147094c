// SPDX-License-Identifier: Apache-2.0
// Layout of a cutrace trace, version 1: constants and structures. FORMAT.md is the specification.
#ifndef CUTRACE_FORMAT_H
#define CUTRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define CT_FORMAT_VERSION 1

// A chunk is a zstd skippable frame (the prefix: magic, length, struct ct_chunk), one zstd frame
// (the body), and one skippable frame of filler, so that every chunk starts at a multiple of 8.
#define CT_PREFIX_MAGIC 0x184D2A5Cu
#define CT_FILLER_MAGIC 0x184D2A5Fu
#define CT_SKIPPABLE_MASK 0xFFFFFFF0u
#define CT_SKIPPABLE_MAGIC 0x184D2A50u
#define CT_ZSTD_MAGIC 0xFD2FB528u
#define CT_CHUNK_MAGIC "CUTRCHNK"
#define CT_CHUNK_ALIGN 8u

// Bounds that a writer keeps and a reader enforces before it allocates anything.
#define CT_MAX_BODY (64u << 20)  // bytes of a body, decompressed
#define CT_MAX_STRING 65535u     // bytes of a string
#define CT_MAX_STACK 512u        // frames of a stack
#define CT_MAX_EVENTS (1u << 20) // events of a chunk

// Flags of a chunk. A reader refuses a chunk with an unknown flag of the upper half (it would
// misread it) and ignores unknown flags of the lower half.
#define CT_CHUNK_LAST 0x1u   // the process ended in good order: nothing follows
#define CT_CHUNK_AMENDS 0x2u // the chunk holds AMEND records
#define CT_CHUNK_REQUIRED 0xFFFF0000u

// Little-endian, naturally aligned, 96 bytes. All times in ns on CLOCK_MONOTONIC.
struct ct_chunk {
    char magic[8];         // CT_CHUNK_MAGIC without its NUL
    uint16_t version;      // CT_FORMAT_VERSION of the writer
    uint16_t header_bytes; // sizeof(struct ct_chunk); a later version may append
    uint32_t flags;        // CT_CHUNK_*
    uint64_t seq;          // 0, 1, 2, ... without gaps
    uint64_t dict_seq;     // chunk with which the dictionaries in force began (<= seq)
    uint64_t first_event;  // number of the chunk's first event
    uint32_t events;       // numbered events in it (AMEND records do not count)
    uint32_t reserved;     // 0
    uint64_t t_first_ns;   // of its first and last event; both 0 if it has none
    uint64_t t_last_ns;
    uint64_t body_bytes; // of the zstd frame that follows the prefix
    uint64_t raw_bytes;  // of the body, decompressed
    uint64_t trace_id;   // random, the same in every chunk of a file
    uint64_t checksum;   // XXH64, seed 0, of the bytes before it
};
_Static_assert(sizeof(struct ct_chunk) == 96, "ct_chunk is part of the format");

#define CT_PREFIX_BYTES (8 + sizeof(struct ct_chunk))

enum ct_section {
#define CT_SECTION(number, NAME) CT_SECTION_##NAME = (number),
#include "events.def"
};

enum ct_op {
#define CT_OP(number, NAME, name) CT_OP_##NAME = (number),
#include "events.def"
    CT_OPS_END
};

enum ct_space {
    CT_SPACE_UNKNOWN = 0,
#define CT_SPACE(number, NAME, name) CT_SPACE_##NAME = (number),
#include "events.def"
};

enum ct_flag {
#define CT_FLAG(bit, NAME, name) CT_FLAG_##NAME = 1 << (bit),
#include "events.def"
};

// Kinds of stack frame.
enum ct_frame_kind { CT_FRAME_NATIVE = 0, CT_FRAME_PYTHON = 1 };

enum ct_coding { CT_VARINT = 0, CT_DELTA = 1 };

enum ct_field {
#define CT_FIELD(number, member, ctype, coding, json) CT_FIELD_##member = (number),
#include "events.def"
    CT_FIELDS_END
};

// An event in memory. A field counts only if its bit (1 << CT_FIELD_x) is set in `present`:
// what is unknown is absent, never zero.
struct ct_event {
    uint64_t present;
#define CT_FIELD(number, member, ctype, coding, json) ctype member;
#include "events.def"
};

#define CT_BIT(member) (UINT64_C(1) << CT_FIELD_##member)
#define CT_HAS(e, member) (((e)->present & CT_BIT(member)) != 0)
#define CT_SET(e, member, value) ((void)((e)->member = (value), (e)->present |= CT_BIT(member)))

#endif
