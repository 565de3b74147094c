// SPDX-License-Identifier: Apache-2.0
// A memory snapshot of PyTorch's, as torch.cuda.memory._dump_snapshot writes it: segments and
// blocks at its end, and the history of each device before that, as far as it was recorded. It
// knows of PyTorch's caching allocator, and of no other memory.
//
// All of it is a stranger's. Numbers can contradict one another; texts are any bytes.
#ifndef CT_SNAPSHOT_H
#define CT_SNAPSHOT_H

#include "read/definitions.h"
#include "snapshot/pickle_read.h"

enum { CT_SNAPSHOT_DEVICES = 64 };

enum ct_snapshot_action {
    CT_SNAPSHOT_OTHER,
    CT_SNAPSHOT_ALLOC,
    CT_SNAPSHOT_FREE_REQUESTED,
    CT_SNAPSHOT_FREE_COMPLETED,
    CT_SNAPSHOT_SEGMENT_ALLOC,
    CT_SNAPSHOT_SEGMENT_FREE,
    CT_SNAPSHOT_SEGMENT_MAP,
    CT_SNAPSHOT_SEGMENT_UNMAP,
    CT_SNAPSHOT_OOM,
};

enum ct_snapshot_state {
    CT_SNAPSHOT_INACTIVE,
    CT_SNAPSHOT_ALLOCATED,
    CT_SNAPSHOT_PENDING, // freed by the program, and still used by another stream
};

// An entry of a device's history.
struct ct_snapshot_entry {
    enum ct_snapshot_action action;
    uint32_t stack;   // 0: none
    uint64_t address; // of an oom: what was free on the device
    uint64_t bytes;   // as the program asked for them, of an oom rounded to PyTorch's step
    uint64_t stream;
    int64_t pool[2];  // where the snapshot has it, else 0
    uint64_t time_us; // time of day; 0: not known
    int free_known;   // of an oom
};

// Which free blocks a request can use: those of its own kind of pool.
struct ct_snapshot_pool_key {
    uint64_t stream;
    int64_t pool[2]; // 0, 0: the default one
    int is_small;    // for requests of at most 1 MiB
};

struct ct_snapshot_segment {
    uint64_t address, bytes;
    struct ct_snapshot_pool_key key;
    int device, is_expandable;
    size_t first_block, block_count;
};

struct ct_snapshot_block {
    uint64_t address, bytes, requested;
    enum ct_snapshot_state state;
    uint32_t stack;
};

struct ct_snapshot_history {
    struct ct_snapshot_entry *list;
    size_t count, room;
    uint64_t ooms;
};

struct ct_snapshot {
    uint8_t *bytes; // of the file
    size_t size;
    struct ct_pickle_document document;
    struct ct_definitions definitions; // of the frames
    struct ct_snapshot_segment *segments;
    struct ct_snapshot_block *blocks;
    size_t segment_count, segment_room, block_count, block_room;
    struct ct_snapshot_history history[CT_SNAPSHOT_DEVICES];
    const struct ct_pickle_value *settings; // allocator_settings, a dictionary; or NULL
    int by_cutrace;                         // `cutrace-report export` has written it
    // While it is read:
    uint64_t budget; // so many more elements may be looked at
    struct ct_map stack_of_list, frame_of_dict;
};

// Takes over the bytes (from malloc) and reads them. `name` is for the message. 0, or -1 with the
// error set; it is to be freed in either case.
int ct_snapshot_read(struct ct_snapshot *s, const char *name, uint8_t *bytes, size_t size,
                     struct ct_error *error);
void ct_snapshot_free(struct ct_snapshot *s);

// The last request that failed: the one with the highest time. Returns its device, or -1.
int ct_snapshot_find_oom(const struct ct_snapshot *s, size_t *entry);

// PyTorch's pool of a device: at the end of the snapshot, or just before an entry of the history,
// to which the entries after it are undone, the newest first.

// Free memory inside of segments: ranges that no block covers, none across two segments.
struct ct_snapshot_free {
    uint64_t bytes, ranges, largest;
};

// Blocks of one stack.
struct ct_snapshot_holder {
    uint32_t stack;
    uint64_t bytes, count;
    uint64_t held_open; // free bytes of the segments that they lie in
    uint64_t segment;   // the last one that was counted, from 1
};

struct ct_snapshot_pool {
    int device;
    uint64_t reserved, segments; // bytes and number
    uint64_t allocated, pending; // bytes of blocks
    uint64_t requested;          // bytes that the program asked for in allocated blocks; at the end
    struct ct_snapshot_free free;
    struct ct_snapshot_free usable;     // of it, by requests of the key
    struct ct_snapshot_holder *holders; // the most bytes first
    size_t holder_count, holder_room;
    uint64_t undone; // entries that were undone
    int is_exact;    // 0: a block was put back whose size is only known as the program asked for it
};

// How much PyTorch asks the driver for, where a request of the program has so many bytes.
uint64_t ct_snapshot_segment_bytes(uint64_t bytes);
// The pool just before entry `before` of the device's history; at the end with its count. `key`:
// whose free memory counts as usable. To be freed.
void ct_snapshot_pool_find(struct ct_snapshot_pool *p, const struct ct_snapshot *s, int device,
                           size_t before, const struct ct_snapshot_pool_key *key);
// Before which entry of a device's history its blocks were the most, the first time; the history's
// count: at the end. *bytes: how many they were, freed ones by their sizes as asked for.
size_t ct_snapshot_find_peak(const struct ct_snapshot *s, int device, uint64_t *bytes);
void ct_snapshot_pool_free(struct ct_snapshot_pool *p);

#endif
