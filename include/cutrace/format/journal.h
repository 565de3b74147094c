// SPDX-License-Identifier: Apache-2.0
// The journal (TRACE.journal): what was recorded and is not in the trace yet, in a mapped file, so
// that it outlives the process.
//
// The recorder maps the file; a reader reads it with read(2) and converts it into chunks of the
// trace. It exists from the first event to a clean end. Offsets are bytes from the start of the
// file; regions begin at multiples of 4096; integers are the machine's own (little-endian on both
// supported machines). A reader with another CT_JOURNAL_VERSION or another event layout
// (layout_hash) rejects it and names the program to use. Fields marked _Atomic are published with
// release and read with acquire. All others are written before the store that publishes them.
//
// Regions, and what makes them valid:
//   header    struct ct_journal, page 0. Valid once `magic` is there: it is written last.
//   rings     One for each thread that recorded: struct ct_journal_ring and, one page after it,
//             ring_data bytes of records. Ring i, i < rings, lies at
//             rings_at + i * (4096 + ring_data). Bytes [tail, head) modulo ring_data are events.
//   open      The open chunk: struct ct_journal_open open[committed & 1].
//   blocks    The bytes of the open chunk's streams.
//   chunks    With CUTRACE_MEMORY: a ring of finished chunks; some may be in the trace already.
//             Bytes [chunks_tail, chunks_head) modulo chunks_bytes, at chunks_at, are entries: a
//             u64 with the length of a chunk (a multiple of 8), then the chunk. A zero in place of
//             a length means that the rest up to the end of the ring is unused. Chunks before
//             chunks_tail were overwritten or are in the trace.
//   names, threads, stacks, modules
//             Tables of what the numbers in ring records stand for.
//
// The journal lies beside the trace. With CUTRACE_MEMORY it lies in memory, because the kernel
// would write each page that changes to the disk: beside the trace if that is on a tmpfs; else
// TRACE.journal is a symbolic link to a file whose name begins with CT_JOURNAL_SHM_PREFIX.
//
// How a reader converts it into chunks:
//   0. Chunks of the chunk ring whose numbers the trace file lacks are chunks of the trace.
//   1. o = open[committed & 1]. If the trace has the chunk o.seq, it has the contents of o's
//      streams: ignore the streams, but not o.drained_ns. Otherwise the streams, cut at their
//      `used`, are the sections of chunk o.seq. (A provisional chunk is none in this sense: the
//      streams have all of it.)
//   2. From each ring take the records with t_ns > o.drained_ns, in the order of time; the others
//      were drained. Their numbers are the process's own: `api` and `text` are names, `stack` is a
//      stack's place, `thread` a thread's number.
//   3. announced != CT_JOURNAL_IDLE: the thread died while it published one more event.
#ifndef CUTRACE_JOURNAL_H
#define CUTRACE_JOURNAL_H

#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/format.h>

#define CT_JOURNAL_MAGIC "CUTRJRNL"
#define CT_JOURNAL_VERSION 4
#define CT_JOURNAL_SUFFIX ".journal"
#define CT_JOURNAL_SHM_PREFIX "/dev/shm/cutrace-"
#define CT_JOURNAL_PAGE 4096u
#define CT_JOURNAL_IDLE UINT64_MAX
#define CT_JOURNAL_DEVICES 64

// ---- the open chunk -----------------------------------------------------------------------------
// Stream k < 8 has the content of section k (CT_SECTION_INFO to CT_SECTION_THREADS; never
// CHECKPOINT and HISTORY), stream CT_STREAM_COLUMNS + c the bytes of event column c.
#define CT_STREAMS 64
#define CT_STREAM_COLUMNS 8

#define CT_STREAM_BLOCK_BYTES 2048u

// A stream is a list of blocks. Block i (from 1 on; 0: none) lies at blocks_at + (i - 1) *
// CT_STREAM_BLOCK_BYTES. `used` is valid in every block of a stream except the last one: of that
// one ct_journal_open has the number of valid bytes.
struct ct_stream_block {
    uint32_t next, used;
    uint8_t bytes[CT_STREAM_BLOCK_BYTES - 8];
};

struct ct_journal_open {
    uint64_t seq, dict_seq, first_event; // as in struct ct_chunk
    uint64_t drained_ns;                 // all events up to this time were drained from the rings
    uint64_t t_first_ns, t_last_ns;      // of numbered events, as in struct ct_chunk
    uint32_t records, events;            // `events` does not count AMEND records
    uint32_t flags;                      // CT_CHUNK_*
    uint32_t reserved;
    struct {
        uint32_t first, last; // numbers of blocks; 0: the stream is empty
        uint32_t used;        // valid bytes of the last block
    } stream[CT_STREAMS];
    uint32_t reserved2[2];
};

// ---- rings --------------------------------------------------------------------------------------
// A record is a struct ct_event without the fields at its end that it lacks:
// ct_journal_record_bytes of its `present`. A zero in place of `present` means that the rest up to
// the end of the ring is unused.
struct ct_journal_ring {
    // Cache line of the thread that records.
    _Atomic uint64_t head; // bytes published since the start
    // Not later than the time of the event that the thread is publishing; CT_JOURNAL_IDLE between
    // two events.
    _Atomic uint64_t announced;
    _Atomic uint64_t last_ns; // time of the last published event
    _Atomic uint32_t thread;  // number of the thread that owns the ring
    _Atomic uint32_t reserved;
    // Cache line of the thread that drains.
    _Atomic uint64_t tail __attribute__((aligned(64))); // bytes drained since the start
    _Atomic uint64_t lost; // events that found the ring full and no LOST record counts yet
    // Cache line that both use, rarely.
    _Atomic uint64_t owner __attribute__((aligned(64))); // claim number << 32 | tid; tid 0: free
};

// Bytes of a record, a multiple of 8. There are five lengths: enough for a free, for a PyTorch
// block, for an allocation, for a stream-ordered operation, and for any event.
#define CT_RECORD_SHORT offsetof(struct ct_event, device)
#define CT_RECORD_BLOCK offsetof(struct ct_event, context)
#define CT_RECORD_MIDDLE offsetof(struct ct_event, stream)
#define CT_RECORD_LONG CT_EVENT_COMMON_BYTES
#define CT_RECORD_WHOLE offsetof(struct ct_event, unused)
#define CT_SHORT_FIELDS \
    (CT_BIT(t_ns) | CT_BIT(ptr) | CT_BIT(op) | CT_BIT(api) | CT_BIT(thread) | CT_BIT(result))
#define CT_BLOCK_FIELDS                                                                          \
    (CT_SHORT_FIELDS | CT_BIT(device) | CT_BIT(stack) | CT_BIT(bytes) | CT_BIT(reserved_bytes) | \
     CT_BIT(allocated_bytes))
#define CT_MIDDLE_FIELDS \
    (CT_BLOCK_FIELDS | CT_BIT(context) | CT_BIT(space) | CT_BIT(flags) | CT_BIT(duration_ns))
#define CT_LONG_FIELDS (CT_MIDDLE_FIELDS | CT_BIT(stream) | CT_BIT(pool))

static inline uint32_t ct_journal_record_bytes(uint64_t present) {
    if (!(present & ~CT_SHORT_FIELDS))
        return CT_RECORD_SHORT;
    if (!(present & ~CT_BLOCK_FIELDS))
        return CT_RECORD_BLOCK;
    if (!(present & ~CT_MIDDLE_FIELDS))
        return CT_RECORD_MIDDLE;
    return present & ~CT_LONG_FIELDS ? CT_RECORD_WHOLE : CT_RECORD_LONG;
}
_Static_assert(CT_RECORD_SHORT == 40 && CT_RECORD_BLOCK == 72 && CT_RECORD_MIDDLE == 96 &&
                   CT_RECORD_LONG == 112 && CT_RECORD_WHOLE % 8 == 0,
               "the fields in front of each cut are those of its macro");

// ---- tables -------------------------------------------------------------------------------------
// Name n (1 <= n < names) is the NUL-terminated text at texts_at + name[n]; name[n] is 0 as long as
// there is none. Thread n is thread[n % threads], if that has this number.
struct ct_journal_thread {
    uint32_t number, tid;
    char name[16];
};

// Stack s lies at stacks_at + s * 8. Its frames are words, innermost first (see below). `hash` is
// written last, with release, and is never 0: an entry without it is unfinished.
struct ct_journal_stack {
    _Atomic uint64_t hash;
    uint32_t frames;
    uint32_t reserved[3]; // for the recorder
    uint64_t frame[];
};

// A frame as a word. With the top bit clear it is a native return address of user space. With the
// top bit set it is a Python frame: the lowest 32 bits are the id of its code name, the 31 bits
// above them the line (0: unknown). With the top bit set and id 0 it is the last word of a
// truncated stack: the line is a value of enum ct_stack_end.
#define CT_FRAME_WORD_PYTHON (UINT64_C(1) << 63)
#define CT_FRAME_WORD_MAX_LINE UINT32_C(0x7FFFFFFF)

static inline uint64_t ct_frame_word_python(uint32_t text, uint32_t line) {
    return CT_FRAME_WORD_PYTHON |
           (uint64_t)(line < CT_FRAME_WORD_MAX_LINE ? line : CT_FRAME_WORD_MAX_LINE) << 32 | text;
}
static inline uint64_t ct_frame_word_end(enum ct_stack_end why) {
    return CT_FRAME_WORD_PYTHON | (uint64_t)why << 32;
}
static inline int ct_frame_word_is_native(uint64_t word) {
    return !(word & CT_FRAME_WORD_PYTHON);
}
static inline uint32_t ct_frame_word_text(uint64_t word) { // 0: the stack ends here
    return (uint32_t)word;
}
static inline int ct_frame_word_is_end(uint64_t word) {
    return !ct_frame_word_is_native(word) && !ct_frame_word_text(word);
}
static inline uint32_t ct_frame_word_line(uint64_t word) { // or enum ct_stack_end
    return (uint32_t)(word >> 32) & CT_FRAME_WORD_MAX_LINE;
}

// The code name of a Python frame: its function and file. It lies among the stacks, with words in
// place of frames: the first word has the length of the function's name (lower half) and of the
// file's name (upper half); then both names follow, padded with zeros to whole words.
#define CT_CODE_NAME_MAX_BYTES 4095u // of each of the two names; longer ones are truncated

struct ct_code_name {
    const char *function, *file; // not NUL-terminated
    uint32_t function_bytes, file_bytes;
};

// Parses a code name of n words. Returns 0, or -1 if the words are none.
static inline int ct_code_name_parse(const uint64_t *words, uint32_t n, struct ct_code_name *t) {
    const uint32_t function = n ? (uint32_t)words[0] : 0, file = n ? (uint32_t)(words[0] >> 32) : 0;
    if (!n || function > CT_CODE_NAME_MAX_BYTES || file > CT_CODE_NAME_MAX_BYTES ||
        function + file > (n - 1) * 8)
        return -1;
    t->function = (const char *)(words + 1);
    t->file = t->function + function;
    t->function_bytes = function;
    t->file_bytes = file;
    return 0;
}

// The first `modules` entries are complete. Later entries replace earlier ones where their
// addresses overlap.
struct ct_journal_module {
    uint64_t base, start, end; // load bias; range of executable addresses
    uint32_t path;             // at module_texts_at + path, NUL-terminated
    uint32_t build_id_bytes;
    uint8_t build_id[64];
};

// ---- the header ---------------------------------------------------------------------------------
// Figures that another process may read at any time. They may be of different times.
struct ct_journal_device {
    _Atomic uint64_t tracked, peak;     // bytes
    _Atomic uint64_t ooms;              // out-of-memory failures
    _Atomic uint64_t free_bytes, total; // of the last sample; total is 0 before the first one
    _Atomic uint64_t sampled_ns;
};

// Requests to the writer thread: bits of `wanted`, a futex that is not private and has one waiter.
enum ct_journal_wake {
    CT_WAKE_NEW_EVENTS = 1u, // there are events again
    CT_WAKE_NOW = 2u,        // poll at once
    CT_WAKE_STOP = 4u,
};

// Requests of another process: it stores `control`, sets CT_WAKE_NOW and wakes the waiter.
enum ct_journal_control {
    CT_CONTROL_OFF = 1u, // stop recording until the bit is cleared
    // Write everything to the trace. The recorder clears the bit when it has done so.
    CT_CONTROL_FLUSH = 2u,
};

struct ct_journal {
    char magic[8];
    uint16_t version, header_bytes;
    uint32_t pid;
    uint64_t layout_hash; // ct_journal_layout()
    uint64_t trace_id;
    uint64_t start_ns;      // creation of the journal, CLOCK_MONOTONIC
    uint64_t process_start; // field 22 of /proc/PID/stat: detects a recycled pid
    uint64_t boot_id[2];    // first 16 bytes of /proc/sys/kernel/random/boot_id's digits, as bytes
    // Layout.
    uint32_t ring_data;              // bytes of records in a ring
    uint32_t blocks, names, threads; // counts
    uint64_t blocks_at, names_at, texts_at, threads_at, modules_at, module_texts_at, stacks_at,
        rings_at;
    uint64_t texts_bytes, module_texts_bytes, stacks_bytes;
    uint32_t modules_room, rings_room;
    // These counts grow.
    _Atomic uint32_t rings, modules;
    // open[committed & 1] is valid.
    _Atomic uint64_t committed;
    struct ct_journal_open open[2];
    // For other processes.
    _Atomic uint32_t wanted __attribute__((aligned(64)));
    _Atomic uint32_t control;
    _Atomic uint64_t events; // in the trace and the open chunk
    _Atomic uint64_t lost;
    _Atomic uint64_t bytes_written; // to the trace file
    _Atomic uint64_t flushes;       // completed CT_CONTROL_FLUSH requests
    struct ct_journal_device device[CT_JOURNAL_DEVICES];
    // The ring of finished chunks.
    uint64_t chunks_at __attribute__((aligned(64)));
    // 0: there is none. It shrinks where memory runs out, before anything was written beyond the
    // new end.
    _Atomic uint64_t chunks_bytes;
    // Bytes written to it and removed from it since the start.
    _Atomic uint64_t chunks_head, chunks_tail;
};
_Static_assert(sizeof(struct ct_journal) <= 2 * CT_JOURNAL_PAGE, "the header has two pages");
#define CT_JOURNAL_HEADER (2 * CT_JOURNAL_PAGE)

// Whether the target of a link TRACE.journal is a file that the recorder created.
static inline int ct_journal_links_to_shm(const char *target) {
    const size_t prefix = sizeof CT_JOURNAL_SHM_PREFIX - 1, suffix = sizeof CT_JOURNAL_SUFFIX - 1,
                 n = strlen(target);
    return n > prefix + suffix && strncmp(target, CT_JOURNAL_SHM_PREFIX, prefix) == 0 &&
           !strchr(target + prefix, '/') && strcmp(target + n - suffix, CT_JOURNAL_SUFFIX) == 0;
}

// `process_start` from the text of /proc/PID/stat; 0 for a zombie or a dead process.
static inline uint64_t ct_journal_process_start(const char *stat) {
    const char *at = strrchr(stat, ')'); // the name may contain anything
    if (!at || !at[1] || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (uint64_t)(*at - '0');
    return ticks;
}

// A hash of struct ct_event's layout.
static inline uint64_t ct_journal_layout(void) {
    uint64_t h = sizeof(struct ct_event);
#define CT_FIELD(number, member, ctype, coding, json)                                     \
    h = (h ^ ((number) << 16 | offsetof(struct ct_event, member) << 4 | sizeof(ctype))) * \
        UINT64_C(0x100000001B3);
#include <cutrace/format/events.def>
    return h;
}

#endif
