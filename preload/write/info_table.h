// SPDX-License-Identifier: Apache-2.0
// Facts for the INFO section: a bounded table of keys and values (ct_info_set of recorder.h fills it).
#ifndef CT_INFO_H
#define CT_INFO_H

// Sets a fact, e.g. ("device.0.total_bytes", "85899345920"). Copies both. Bounded; setting a key again replaces its value.
// May take a spin lock of the recorder: not for hot paths. Any thread.
void ct_info_set(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Has `refresh` called before INFO is written, in any thread, so that it brings its facts up to date. The same function
// is added once. Returns 0, or -ENOSPC.
int ct_info_add_source(void (*refresh)(void));

// Calls all sources.
void ct_info_refresh(void);

// Puts what has changed since the last time into the chunk that is being filled. What does not fit stays
// for the next one. Drainer only.
void ct_info_put_changed(void);

// Everything is to be written again.
void ct_info_mark_all_changed(void);
void ct_info_reinit_child(void);

#endif
