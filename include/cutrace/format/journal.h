// SPDX-License-Identifier: Apache-2.0
// The journal (TRACE.journal): what has happened and is not in the trace yet, in a file that the recorder shares with
// nobody but the kernel, so that it outlives the process.
//
// The recorder maps it, the report reads it (read(2), never mapped) and folds it into the trace. It exists from the
// first event to a clean end. Offsets are bytes from the start of the file; regions begin at multiples of 4096; integers
// are the machine's own (little-endian on both supported machines). A reader of another CT_JOURNAL_VERSION or another
// event layout (layout_hash) refuses it and says which program to use. Fields marked _Atomic are published with release
// and read with acquire; all others are written before the thing that publishes them.
//
// What is where, and what makes it valid:
//   header    struct ct_journal, page 0; valid when `magic` is there (written last)
//   rings     one for each thread that recorded: struct ct_journal_ring and, a page behind it, ring_data bytes of records;
//             rings_at + i * (4096 + ring_data), i < rings. Bytes [tail, head) modulo ring_data are events.
//   open      the chunk that is being filled: struct ct_journal_open open[committed & 1]
//   shelf     with CUTRACE_MEMORY: a ring of finished chunks, of which some may be in the trace already. Bytes
//             [chunks_tail, chunks_head) modulo chunks_bytes, at chunks_at, are entries: a u64, the length of a chunk (a
//             multiple of 8), and behind it the chunk in one piece. A word 0 in place of a length means: the rest up to
//             the end of the ring is unused. What is older than chunks_tail was overwritten, or is in the trace.
//   blocks    the bytes of its streams
//   names, threads, stacks, modules    what the numbers in ring records stand for
//
// It lies beside the trace. With CUTRACE_MEMORY it lies in memory, since the kernel would write each page of it that
// changes to the disk: beside the trace if that is on a tmpfs, else TRACE.journal is a symbolic link to a file whose name
// begins with CT_JOURNAL_SHM_PREFIX.
//
// To fold (what a reader does):
//   0. The chunks of the shelf whose numbers the trace's file does not have are chunks of the trace.
//   1. o = open[committed & 1]. If the trace already has the chunk o.seq, o's streams are in it: ignore them, but not
//      o.drained_ns. Otherwise the streams, cut at their `used`, are the sections of the chunk o.seq.
//   2. From each ring the records with t_ns > o.drained_ns (older ones have been taken out), in the order of time. They carry the
//      process's own numbers: `api` and `text` are names, `stack` a stack's place, `thread` a thread's number.
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

// ---- streams ----------------------------------------------------------------------------------
// Stream k < 8 is the content of section k (CT_SECTION_INFO .. CT_SECTION_THREADS, CHECKPOINT and HISTORY never), stream
// CT_STREAM_COLUMNS + c the bytes of event column c.
#define CT_STREAMS 64
#define CT_STREAM_COLUMNS 8

#define CT_STREAM_BLOCK_BYTES 2048u

// Block i (from 1; 0 is none) lies at blocks_at + (i - 1) * CT_STREAM_BLOCK_BYTES. `used` counts for every block of a stream but
// its last one, for which the commit says how much of it counts.
struct ct_stream_block {
    uint32_t next, used;
    uint8_t bytes[CT_STREAM_BLOCK_BYTES - 8];
};

struct ct_journal_open {
    uint64_t seq, dict_seq, first_event; // as in struct ct_chunk
    uint64_t drained_ns;                   // all events up to this time have left the rings
    uint64_t t_first_ns, t_last_ns;
    uint32_t records, events; // with and without AMEND records
    uint32_t flags;           // CT_CHUNK_*
    uint32_t reserved;
    struct {
        uint32_t first, last; // blocks; 0: the stream is empty
        uint32_t used;        // bytes of the last one that count
    } stream[CT_STREAMS];
    uint32_t reserved2[2];
};

// ---- rings ------------------------------------------------------------------------------------
// A record is a struct ct_event, cut where the fields that it lacks begin: ct_journal_record_bytes of its `present`. A word
// 0 in place of `present` means: the rest up to the end of the ring is unused.
struct ct_journal_ring {
    // the thread's line
    _Atomic uint64_t head; // bytes published, ever
    _Atomic uint64_t
        announced; // no later than the time of what is being published; or CT_JOURNAL_IDLE
    _Atomic uint64_t last_ns; // time of the last event published
    _Atomic uint32_t thread;  // number of the thread that owns the ring now
    _Atomic uint32_t reserved;
    // the drainer's line
    _Atomic uint64_t tail __attribute__((aligned(64))); // bytes taken out, ever
    _Atomic uint64_t lost; // events that found the ring full and are in no LOST record yet
    // both, rarely
    _Atomic uint64_t owner __attribute__((aligned(64))); // claim number << 32 | tid; tid 0: free
};

// Bytes of a record, a multiple of 8. There are five lengths: a give-back has no more fields than the first, a block of PyTorch's
// than the second, an allocation than the third, what a stream orders than the fourth; whatever is rarer is copied whole.
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

// ---- tables -----------------------------------------------------------------------------------
// A name with number n (1 <= n < names) is the NUL-terminated text at texts_at + name[n], 0: not there (yet).
// A thread with number n is thread[n % threads], if that has this number.
struct ct_journal_thread {
    uint32_t number, tid;
    char name[16];
};

// A stack with id s lies at stacks_at + s * 8. Its frames are words, innermost first: CT_FRAME_WORD_* below. `hash` is
// written last (release) and never 0: an entry without it was not finished.
struct ct_journal_stack {
    _Atomic uint64_t hash;
    uint32_t frames;
    uint32_t reserved[3]; // the recorder's
    uint64_t frame[];
};

// A frame as a word. The top bit is clear: a native return address of user space. Set: a Python frame, whose lowest 32
// bits are the id of a text, and the 31 bits above them the line (0: unknown); or, without a text, what ends a stack that
// has no more frames here though the thread had: a value of enum ct_stack_end in place of the line, as the last word.
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
static inline uint32_t ct_frame_word_text(uint64_t word) { // 0: an end
    return (uint32_t)word;
}
static inline int ct_frame_word_is_end(uint64_t word) {
    return !ct_frame_word_is_native(word) && !ct_frame_word_text(word);
}
static inline uint32_t ct_frame_word_line(uint64_t word) { // or enum ct_stack_end
    return (uint32_t)(word >> 32) & CT_FRAME_WORD_MAX_LINE;
}

// A text is kept as a stack is, in the same place: its words are one with the bytes of the function's name (lower half)
// and of the file's (upper half), and then these bytes, one name behind the other, filled up with zeros to whole words.
#define CT_CODE_NAME_MAX_BYTES 4095u // of each of the two names; longer ones are cut

struct ct_code_name {
    const char *function, *file; // not terminated
    uint32_t function_bytes, file_bytes;
};

// The names of a text of n words. 0, or -1: these words are none.
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

// The first `modules` entries are complete. Later entries replace earlier ones where their addresses overlap.
struct ct_journal_module {
    uint64_t base, start, end; // load bias; executable addresses
    uint32_t path;             // at module_texts_at + path, NUL-terminated
    uint32_t build_id_bytes;
    uint8_t build_id[64];
};

// ---- the header -------------------------------------------------------------------------------
// What another process may read at any time; numbers of different moments.
struct ct_journal_device {
    _Atomic uint64_t tracked, peak;     // bytes
    _Atomic uint64_t refused;           // allocations refused for want of memory
    _Atomic uint64_t free_bytes, total; // of the last sample; total 0: none yet
    _Atomic uint64_t sampled_ns;
};

// What the writer thread is asked for, in `wanted`, a futex that is not private and has one waiter.
enum ct_journal_wake {
    CT_WAKE_NEW_EVENTS = 1u, // there is something again
    CT_WAKE_NOW = 2u,  // look at once
    CT_WAKE_STOP = 4u,
};

// What another process may ask for: it stores a word, sets CT_WAKE_NOW and wakes the waiter.
enum ct_journal_control {
    CT_CONTROL_OFF = 1u, // stop recording until the bit is cleared
    CT_CONTROL_FLUSH =
        2u, // put everything into the trace; the recorder clears the bit when it is done
};

struct ct_journal {
    char magic[8];
    uint16_t version, header_bytes;
    uint32_t pid;
    uint64_t layout_hash; // ct_journal_layout()
    uint64_t trace_id;
    uint64_t start_ns;      // when the journal was made, CLOCK_MONOTONIC
    uint64_t process_start; // field 22 of /proc/PID/stat: tells a recycled pid
    uint64_t boot_id[2];    // first 16 bytes of /proc/sys/kernel/random/boot_id's digits, as bytes
    // layout
    uint32_t ring_data;              // bytes of records of a ring
    uint32_t blocks, names, threads; // how many
    uint64_t blocks_at, names_at, texts_at, threads_at, modules_at, module_texts_at, stacks_at,
        rings_at;
    uint64_t texts_bytes, module_texts_bytes, stacks_bytes;
    uint32_t modules_room, rings_room;
    // what grows
    _Atomic uint32_t rings, modules;
    // the commit: open[committed & 1] counts
    _Atomic uint64_t committed;
    struct ct_journal_open open[2];
    // for other processes
    _Atomic uint32_t wanted __attribute__((aligned(64)));
    _Atomic uint32_t control;
    _Atomic uint64_t events, lost,
        bytes_written;        // in the trace and the open chunk; lost; of the trace file
    _Atomic uint64_t flushes; // how often FLUSH was done
    struct ct_journal_device device[CT_JOURNAL_DEVICES];
    // the shelf
    uint64_t chunks_at __attribute__((aligned(64)));
    // 0: there is none. It becomes less where memory ends, before anything has lain beyond.
    _Atomic uint64_t chunks_bytes;
    _Atomic uint64_t chunks_head, chunks_tail; // bytes put on it and taken off it, ever
};
_Static_assert(sizeof(struct ct_journal) <= 2 * CT_JOURNAL_PAGE, "the header has two pages");
#define CT_JOURNAL_HEADER (2 * CT_JOURNAL_PAGE)

// Whether the target of a link TRACE.journal is one that the recorder chose.
static inline int ct_journal_links_to_shm(const char *target) {
    const size_t prefix = sizeof CT_JOURNAL_SHM_PREFIX - 1, suffix = sizeof CT_JOURNAL_SUFFIX - 1,
                 n = strlen(target);
    return n > prefix + suffix && strncmp(target, CT_JOURNAL_SHM_PREFIX, prefix) == 0 &&
           !strchr(target + prefix, '/') && strcmp(target + n - suffix, CT_JOURNAL_SUFFIX) == 0;
}

// What `process_start` is, from the text of /proc/PID/stat; 0 if there is no such process or only its remains.
static inline uint64_t ct_journal_process_start(const char *stat) {
    const char *at = strrchr(stat, ')'); // the name may hold anything
    if (!at || !at[1] || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (uint64_t)(*at - '0');
    return ticks;
}

// Changes whenever struct ct_event does.
static inline uint64_t ct_journal_layout(void) {
    uint64_t h = sizeof(struct ct_event);
#define CT_FIELD(number, member, ctype, coding, json)                                     \
    h = (h ^ ((number) << 16 | offsetof(struct ct_event, member) << 4 | sizeof(ctype))) * \
        UINT64_C(0x100000001B3);
#include <cutrace/format/events.def>
    return h;
}

#endif
