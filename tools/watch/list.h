// SPDX-License-Identifier: Apache-2.0
// The traced processes that are watched: found by their journals, read at each tick.
#ifndef CT_WATCH_LIST_H
#define CT_WATCH_LIST_H

#include "watch/files.h"
#include "watch/model.h"

enum { CT_WATCH_MOST = 256, CT_WATCH_HIDDEN = 1024 };

// What is asked for: all processes, those of a folder, one, or those whose program's name contains
// a text.
struct ct_watch_target {
    enum { CT_WATCH_ALL, CT_WATCH_DIR, CT_WATCH_PID, CT_WATCH_NAME } kind;
    const char *text;
    uint32_t pid;
};

struct ct_watch_entry {
    struct ct_watch_process process;
    char *folder, *name;
    struct ct_watch_journal journal;
    int is_changed;    // since the details were read, or were tried to be
    uint64_t tried_ns; // when that was
    int is_open;       // the outcome of a request was not known then: read again at the next tick
    // What was counted of it since it was found.
    struct ct_watch_news news;
};

struct ct_watch_list {
    struct ct_watch_target target;
    struct ct_watch_entry *entries;
    size_t count, room;
    // What was found and is not read, by the last search of the folder and of /proc. The first ones
    // of both are `skipped`, as many as there are up to CT_WATCH_SKIPS.
    struct ct_watch_skips skips_of_folder, skips_of_processes, *skips_now;
    const char *skipped[CT_WATCH_SKIPS];
    size_t skips;
    // Of journals that do not belong to what is asked for, so that they are not looked at again.
    uint64_t hidden[CT_WATCH_HIDDEN];
    size_t hidden_count;
    uint64_t searched_ns; // when all of /proc was
    uint64_t folder_ns;   // of the folder's last change when it was searched; 0: it may go on
    uint64_t since_ns;    // the moment from which gains count; 0: as far back as the trend goes
    uint64_t owed_ns;     // processor time of details that is not earned yet
    uint64_t earned_ns;   // of it, by the last tick
    uint64_t tick_ns;     // when that was
    // Is called at each tick, whichever view is shown; may be NULL.
    void (*ticked)(void *user);
    void *ticked_user;
    // Around what may take long and leaves the entries as they are: `ticked`, and reading details.
    // NULL: nobody else uses the list.
    void (*unlock)(void *user), (*lock)(void *user);
    void *lock_user;
};

// Which one a word of the command line asks for; NULL: none was given.
struct ct_watch_target ct_watch_target_parse(const char *word);
// Finds processes that are new. `all`: look at all of /proc again, whenever that was done.
void ct_watch_list_find(struct ct_watch_list *l, int all);
// Reads the headers of all.
void ct_watch_list_tick(struct ct_watch_list *l);
// Reads the details of one.
void ct_watch_list_read(struct ct_watch_list *l, struct ct_watch_entry *e);
// Reads details that have changed, as far as their cost stays below a small part of a core; those
// of `first` (an index, or -1) before all others.
void ct_watch_list_read_some(struct ct_watch_list *l, int first);
// Forgets those that ended in good order so long ago.
void ct_watch_list_forget(struct ct_watch_list *l, uint64_t older_than_ns);
void ct_watch_list_free(struct ct_watch_list *l);

#endif
