// SPDX-License-Identifier: Apache-2.0
// Writes a trace anew: definitions, objects of checkpoints and events as a reader has them become
// chunks of the newest version. Dictionaries hold only what is referred to, events have their final
// result, and times are exact. The same input always gives the same bytes.
#ifndef CT_TRACE_WRITER_H
#define CT_TRACE_WRITER_H

#include <cutrace/format/encode.h>
#include <cutrace/model/checkpoint.h>
#include <cutrace/model/history.h>

#include "base/buffer.h"
#include "read/definitions.h"

// What a string is the name of.
enum ct_name_role {
    CT_NAME_FILE,     // a module, a file of Python, a source file
    CT_NAME_FUNCTION, // of Python; of a native frame as the linker knows it
    CT_NAME_THREAD,
    CT_NAME_API,
    CT_NAME_NOTE, // text of a NOTE, a mark or a range, its domain and category
    CT_NAME_ROLES
};

struct ct_trace_writer {
    // Set by the caller before ct_trace_writer_begin.
    const struct ct_definitions *names;
    // Takes the bytes of a chunk. Returns 0, or -1: writing ends.
    int (*put)(void *user, const void *bytes, size_t n);
    // Gives a string another name (NULL: all keep theirs); `frame` is the frame that it belongs to,
    // or NULL. The result is valid until the next call.
    struct ct_string (*rename)(void *user, enum ct_name_role role, const struct ct_frame *frame,
                               const struct ct_string *name);
    void *user;        // of `put`
    void *rename_user; // of `rename`
    uint64_t trace_id;
    struct ct_buffer info; // content of the INFO section of each first chunk of a generation

    // Its own.
    uint32_t *ids[CT_ID_KINDS]; // of names -> of the file; strings have their own:
    struct ct_id_set texts;     // strings of this generation by their bytes
    struct ct_string *text;     // by id of the file, from 1 on; in `arena`
    size_t text_count, text_capacity;
    uint32_t last[CT_ID_KINDS];                       // highest id of the file
    struct ct_buffer defined[CT_SECTION_THREADS + 1]; // sections of the next chunk
    struct ct_event *events;
    struct ct_event *objects;
    size_t event_count, object_count, object_capacity;
    struct ct_encoder encoder;
    void *encoder_memory;
    uint8_t *column[CT_COLUMNS];
    size_t column_bytes[CT_COLUMNS];
    struct ct_buffer body, chunk;
    const struct ct_history *history;
    uint64_t seq, dict_seq, first_event;
    uint64_t end_ns; // of the last chunk, 0 before
    unsigned flags;  // of the next chunk
    int begins;      // the next chunk is the first one of its generation
    int failed;      // `put` did
    uint64_t chunks; // written
};

void ct_trace_writer_begin(struct ct_trace_writer *w); // ct_trace_writer_begin_run follows
// Begins dictionaries that later chunks refer to. The chunk that comes next begins with event
// `number`; `gap`: chunks are missing before it. `restart`: a reader can begin there; the state
// follows as a checkpoint, after `history` (may be NULL; is not copied).
void ct_trace_writer_begin_run(struct ct_trace_writer *w, int gap, uint64_t number, int restart,
                               const struct ct_history *history);
// Adds an object of the next part of a checkpoint.
void ct_trace_writer_put_object(struct ct_trace_writer *w, const struct ct_event *object);
// Ends the part; `flags` are CT_CHECKPOINT_*.
void ct_trace_writer_end_part(struct ct_trace_writer *w, unsigned flags);
void ct_trace_writer_put_event(struct ct_trace_writer *w, const struct ct_event *event);
// Writes the last chunk, with these flags (CT_CHUNK_*). `end_ns`: when the trace ends, which a
// recorder knows exactly, while the time of its last event may be rounded; or 0. Returns 0, or -1
// if `put` failed.
int ct_trace_writer_end(struct ct_trace_writer *w, unsigned flags, uint64_t end_ns);
void ct_trace_writer_free(struct ct_trace_writer *w);
// Appends a pair to the content of an INFO section.
void ct_trace_writer_add_info(struct ct_buffer *info, struct ct_string key, struct ct_string value);

#endif
