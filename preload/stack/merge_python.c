// SPDX-License-Identifier: Apache-2.0
// Merges two stacks of a thread into one: its native frames, and the Python frames that they run.
//
// The native frame of an evaluation loop is found without its name, which stripped interpreters
// lack. Each activation of the loop keeps something in its own stack frame that the interpreter's
// state points to (the anchor, python_walk.h). So native frame i runs those Python frames whose
// anchor lies between its stack pointer and that of frame i + 1.
#include "stack/merge_python.h"

#include <cutrace/format/journal.h>

#include "stack/python_walk.h"

// The first n words of `to` are put; words after `most` are counted only. `next` is the next Python
// frame to put.
struct merge {
    uint64_t *to;
    size_t n, most;
    const struct ct_python_frames *python;
    size_t next;
};

static void put_word(struct merge *m, uint64_t word) {
    if (m->n <= m->most)
        m->to[m->n] = word;
    m->n++;
}

// The anchor of the activation that runs the next Python frame; 0 if there is none.
static uintptr_t next_anchor(const struct merge *m) {
    for (size_t i = m->next; i < m->python->n; i++)
        if (m->python->anchor[i])
            return m->python->anchor[i];
    return 0;
}

// Puts the Python frames of one activation.
static void put_activation(struct merge *m) {
    uintptr_t anchor = 0;
    while (m->next < m->python->n && !anchor) {
        anchor = m->python->anchor[m->next];
        put_word(m, m->python->word[m->next++]);
    }
}

// Puts native frame i, or the Python frames that it runs. Python frames whose activation is none of
// the native frames, and whose anchor lies below, come first.
static void put_native(struct merge *m, const struct ct_native_frames *native, size_t i,
                       int (*is_loop)(uintptr_t pc)) {
    int is_run = 0;
    uintptr_t anchor = next_anchor(m);
    if (anchor == CT_PYTHON_ANYWHERE && (is_run = is_loop((uintptr_t)native->pc[i])))
        put_activation(m);
    for (; anchor > CT_PYTHON_ANYWHERE && anchor < native->sp[i + 1]; anchor = next_anchor(m)) {
        is_run |= anchor >= native->sp[i];
        put_activation(m);
    }
    if (!is_run)
        put_word(m, native->pc[i]);
}

size_t ct_merge_python(uint64_t *to, size_t most, const struct ct_native_frames *native,
                       const struct ct_python_frames *python, int (*is_loop)(uintptr_t pc)) {
    struct merge m = {.to = to, .most = most, .python = python};
    for (size_t i = 0; i < native->n; i++)
        put_native(&m, native, i, is_loop);
    if (native->end)
        put_word(&m, native->end);
    while (m.next < python->n)
        put_activation(&m);
    if (python->more)
        put_word(&m, ct_frame_word_end(CT_STACK_DEEPER));
    if (m.n <= most || (m.n == most + 1 && ct_frame_word_is_end(to[most])))
        return m.n;
    to[most] = ct_frame_word_end(CT_STACK_DEEPER);
    return most + 1;
}
