// SPDX-License-Identifier: Apache-2.0
// One stack out of two: the native frames of a thread, and the Python frames that its interpreter loops run.
//
// A loop is found without its name, which stripped interpreters lack: each activation keeps something in its own stack
// frame that the interpreter's state points to (the anchor, see python.h). So frame i is the loop of those Python frames
// whose anchor lies between its stack pointer and that of frame i + 1.
#include "stack/merge_python.h"

#include <cutrace/format/journal.h>

#include "stack/python_walk.h"

struct merge {
    uint64_t *to;
    size_t n, most;
    const struct ct_python_frames *python;
    size_t next; // Python frame
};

static void put(struct merge *m, uint64_t word) {
    if (m->n <= m->most)
        m->to[m->n] = word;
    m->n++;
}

// The anchor of the next Python frames; 0 if there are none.
static uintptr_t next_anchor(const struct merge *m) {
    for (size_t i = m->next; i < m->python->n; i++)
        if (m->python->anchor[i])
            return m->python->anchor[i];
    return 0;
}

// The Python frames up to the next anchor.
static void put_python(struct merge *m) {
    uintptr_t anchor = 0;
    while (m->next < m->python->n && !anchor) {
        anchor = m->python->anchor[m->next];
        put(m, m->python->word[m->next++]);
    }
}

// Native frame i, or what it runs, behind Python frames of loops that are none of the native frames.
static void put_native(struct merge *m, const struct ct_native_frames *native, size_t i,
                       int (*is_loop)(uintptr_t pc)) {
    int is_run = 0;
    uintptr_t anchor = next_anchor(m);
    if (anchor == CT_PYTHON_ANYWHERE && (is_run = is_loop((uintptr_t)native->pc[i])))
        put_python(m);
    for (; anchor > CT_PYTHON_ANYWHERE && anchor < native->sp[i + 1]; anchor = next_anchor(m)) {
        is_run |= anchor >= native->sp[i];
        put_python(m);
    }
    if (!is_run)
        put(m, native->pc[i]);
}

size_t ct_merge_python(uint64_t *to, size_t most, const struct ct_native_frames *native,
                     const struct ct_python_frames *python, int (*is_loop)(uintptr_t pc)) {
    struct merge m = {.to = to, .most = most, .python = python};
    for (size_t i = 0; i < native->n; i++)
        put_native(&m, native, i, is_loop);
    if (native->end)
        put(&m, native->end);
    while (m.next < python->n)
        put_python(&m);
    if (python->more)
        put(&m, ct_frame_word_end(CT_STACK_DEEPER));
    if (m.n <= most || (m.n == most + 1 && ct_frame_word_is_end(to[most])))
        return m.n;
    to[most] = ct_frame_word_end(CT_STACK_DEEPER);
    return most + 1;
}
