// SPDX-License-Identifier: Apache-2.0
// Layout of a cutrace trace, version 3: constants and structures. FORMAT.md is the specification.
#ifndef CUTRACE_FORMAT_H
#define CUTRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CT_FORMAT_VERSION 3

// A chunk is a zstd skippable frame (the prefix: magic, length, struct ct_chunk), one zstd frame
// (the body), and one skippable frame of filler, so that every chunk starts at a multiple of 8.
#define CT_PREFIX_MAGIC 0x184D2A5Cu
#define CT_FILLER_MAGIC 0x184D2A5Fu
#define CT_SKIPPABLE_MASK 0xFFFFFFF0u
#define CT_SKIPPABLE_MAGIC 0x184D2A50u
#define CT_ZSTD_MAGIC 0xFD2FB528u
#define CT_CHUNK_MAGIC "CUTRCHNK"
// Between the body and the filler a chunk may have one more skippable frame: its digest.
#define CT_DIGEST_MAGIC 0x184D2A5Du
#define CT_DIGEST_NAME "CUTRDGST"
#define CT_DIGEST_VERSION 1
#define CT_CHUNK_ALIGN 8u

// Bounds that a writer keeps and a reader enforces before it allocates anything.
#define CT_MAX_BODY (64u << 20)      // bytes of a body, decompressed
#define CT_MAX_STRING 65535u         // bytes of a string
#define CT_MAX_STACK 4096u           // frames of a stack, its END frame included
#define CT_MAX_SOURCE_LOCATIONS 256u // of a native frame: inlined functions and its own function
#define CT_MAX_EVENTS (1u << 20)     // events of a chunk
#define CT_MAX_TICK_NS (1u << 20)

// A writer begins no new zstd block within so many bytes of a body. Columns differ in their bytes
// and each zstd block has an entropy code of its own: a body that is cut between columns takes
// about a tenth less.
#define CT_CUT_BYTES 4096u

// Flags of a chunk. A reader rejects a chunk with an unknown flag of the upper half, because it
// would misread the chunk, and ignores unknown flags of the lower half.
#define CT_CHUNK_LAST 0x1u   // clean end of the process, if no chunk has a higher seq
#define CT_CHUNK_AMENDS 0x2u // the chunk holds AMEND records
#define CT_CHUNK_RESTART \
    0x4u // a reader can begin here: new dictionaries, all INFO, HISTORY, CHECKPOINT
#define CT_CHUNK_SEALED 0x8u       // made from the journal of a process that was killed
#define CT_CHUNK_PROVISIONAL 0x10u // the chunk was not complete: another one may replace it
#define CT_CHUNK_REQUIRED 0xFFFF0000u

// Little-endian, naturally aligned, 96 bytes. Times are ns on CLOCK_MONOTONIC.
struct ct_chunk {
    char magic[8];         // CT_CHUNK_MAGIC without its NUL
    uint16_t version;      // CT_FORMAT_VERSION of the writer
    uint16_t header_bytes; // sizeof(struct ct_chunk); a later version may append
    uint32_t flags;        // CT_CHUNK_*
    uint64_t seq;          // 0, 1, 2, ... without gaps
    uint64_t dict_seq;     // chunk in which the dictionaries in force began (<= seq)
    uint64_t first_event;  // number of the chunk's first event
    uint32_t events;       // numbered events in it, AMEND records not counted
    uint32_t reserved;     // 0
    uint64_t t_first_ns;   // of the first and the last numbered event; both 0 without one
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
#include <cutrace/format/events.def>
};

enum ct_op {
#define CT_OP(number, NAME, name) CT_OP_##NAME = (number),
#include <cutrace/format/events.def>
    CT_OPS_END
};

enum ct_space {
    CT_SPACE_UNKNOWN = 0,
#define CT_SPACE(number, NAME, name) CT_SPACE_##NAME = (number),
#include <cutrace/format/events.def>
};

enum ct_flag {
#define CT_FLAG(bit, NAME, name) CT_FLAG_##NAME = 1 << (bit),
#include <cutrace/format/events.def>
};

// Kinds of stack frame. END is the last frame of a truncated stack, in place of the unknown frames.
enum ct_frame_kind { CT_FRAME_NATIVE = 0, CT_FRAME_PYTHON = 1, CT_FRAME_END = 2 };

// Why a stack ends before the thread's first function.
enum ct_stack_end {
    CT_STACK_DEEPER = 1, // the stack has more frames than CUTRACE_STACK_DEPTH
    CT_STACK_LOST = 2,   // code without unwind information: its caller is unknown
};

// In `stream` of a block: the stream is not known. (A block without `stream`: FORMAT.md.)
#define CT_STREAM_UNKNOWN UINT64_MAX

enum ct_coding { CT_VARINT = 0, CT_DELTA = 1, CT_PACKED = 2 };

enum ct_field {
#define CT_FIELD(number, member, ctype, coding, json) CT_FIELD_##member = (number),
#include <cutrace/format/events.def>
    CT_FIELDS_END = CT_FIELD_pid + 1 // highest number
};
#define CT_FIELD(number, member, ctype, coding, json) \
    _Static_assert((number) < CT_FIELDS_END, "CT_FIELDS_END is above the highest number");
#include <cutrace/format/events.def>

// An event in memory. A field is valid only if its bit (1 << CT_FIELD_x) is set in `present`: an
// unknown value is absent, never zero.
struct ct_event {
    uint64_t present;
#define CT_FIELD(number, member, ctype, coding, json) ctype member;
#include <cutrace/format/events.def>
    uint64_t unused[1]; // pads to a multiple of 16 bytes: events are copied in such steps
};
_Static_assert(sizeof(struct ct_event) % 16 == 0, "events are copied in steps of 16 bytes");

// Bytes before the fields that few events have.
#define CT_EVENT_COMMON_BYTES offsetof(struct ct_event, handle)

// Makes an event without fields. The common ones are zeroed, because the journal's records contain
// them whether they are set or not: what lay in this memory before must not get there.
static inline void ct_event_init(struct ct_event *e) {
    memset(e, 0, CT_EVENT_COMMON_BYTES);
}

#define CT_BIT(member) (UINT64_C(1) << CT_FIELD_##member)
#define CT_HAS(e, member) (((e)->present & CT_BIT(member)) != 0)
#define CT_GET(e, member) (CT_HAS(e, member) ? (e)->member : 0)
#define CT_SET(e, member, value) ((void)((e)->member = (value), (e)->present |= CT_BIT(member)))
// Sets a field whose value is unknown if it is 0.
#define CT_SET_KNOWN(e, member, value) ((value) ? CT_SET(e, member, value) : (void)0)

#endif
