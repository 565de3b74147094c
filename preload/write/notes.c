// SPDX-License-Identifier: Apache-2.0
// Messages of the recorder in the trace.
#include "write/notes.h"

#include "base/options.h"
#include "base/print.h"
#include "store/name_table.h"

static struct ct_event note; // no operation: none waits

void ct_notes_add(const char *text) {
    struct ct_event e = {.present = 0};
    if (!text || note.op)
        return;
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(&e, text, ct_name_intern_format("%s", text));
    note = e;
}

void ct_notes_report(const char *text) {
    char line[300];
    if (!text)
        return;
    ct_print(line, sizeof line, "cutrace: %s\n", text);
    ct_options_say(line);
    ct_notes_add(text);
}

int ct_notes_has(void) {
    return note.op != 0;
}

size_t ct_notes_take(struct ct_event *e, uint64_t t_ns) {
    if (!note.op)
        return 0;
    CT_SET(&note, t_ns, t_ns);
    *e = note;
    note.op = 0;
    return 1;
}

void ct_notes_reinit_child(void) {
    note.op = 0;
}
