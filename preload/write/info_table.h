// SPDX-License-Identifier: Apache-2.0
// The table of INFO: keys and values about the process, its devices and the recorder. Of limited
// size.
#ifndef CT_WRITE_INFO_TABLE_H
#define CT_WRITE_INFO_TABLE_H

#include <stdint.h>

// Sets the value of a key, e.g. ("device.0.total_bytes", "85899345920"). Copies both. Takes a spin
// lock: not for hot paths. Any thread.
void ct_info_set(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same with a number, for a key that is formatted.
void ct_info_set_number(uint64_t number, const char *key_format, ...)
    __attribute__((format(printf, 2, 3)));

// Registers a function that sets its keys again before INFO is written; it may be called in any
// thread. A function is registered once. Returns 0, or -ENOSPC.
int ct_info_add_source(void (*refresh)(void));

// Calls the registered functions.
void ct_info_refresh(void);

// Puts values that have changed since the last time into the open chunk; those that do not fit,
// into the next one. Drainer only.
void ct_info_put_changed(void);

// All values will be written again. Drainer only.
void ct_info_mark_all_changed(void);
void ct_info_reinit_child(void);

// A bounded list of names, each once: facts about modules are keys with the position of the name,
// because a key that has a name in it could not be scrubbed. One thread at a time.
enum { CT_NAME_LIST_NAMES = 128, CT_NAME_LIST_BYTES = 128 };

struct ct_name_list {
    unsigned count;
    char name[CT_NAME_LIST_NAMES][CT_NAME_LIST_BYTES];
};

// The position of a name, which is added if it is new; -1: the list is full.
int ct_name_list_find(struct ct_name_list *list, const char *name);

#endif
