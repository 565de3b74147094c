// SPDX-License-Identifier: Apache-2.0
#include "watch/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/journal_file.h"
#include "base/now.h"
#include "base/utf8.h"
#include "watch/folder.h"

#define SEARCH_NS UINT64_C(30000000000) // between two looks at all of /proc
#define SETTLED_NS UINT64_C(2000000000) // a folder's time may be as coarse as that
#define ANEW_NS UINT64_C(15000000000)   // details are read anew, changed or not
static const char too_many[] = "256 processes are watched already";
enum { COST_SHARE = 64 }; // details take one part in so many of a core

struct ct_watch_target ct_watch_target_parse(const char *word) {
    struct stat st;
    if (!word)
        return (struct ct_watch_target){.kind = CT_WATCH_ALL};
    if (stat(word, &st) == 0 && S_ISDIR(st.st_mode))
        return (struct ct_watch_target){.kind = CT_WATCH_DIR, .text = word};
    if (*word && strspn(word, "0123456789") == strlen(word) && strlen(word) < 10)
        return (struct ct_watch_target){
            .kind = CT_WATCH_PID, .text = word, .pid = (uint32_t)strtoul(word, NULL, 10)};
    return (struct ct_watch_target){.kind = CT_WATCH_NAME, .text = word};
}

// Whether a process belongs to what is asked for.
static int shows(const struct ct_watch_list *l, const struct ct_watch_entry *e) {
    switch (l->target.kind) {
    case CT_WATCH_PID:
        return e->process.pid == l->target.pid || e->journal.head.pid == l->target.pid;
    case CT_WATCH_NAME:
        return strstr(e->process.program, l->target.text) != NULL;
    default:
        return 1;
    }
}

// ---- what is new --------------------------------------------------------------------------------

static void merge_skips(struct ct_watch_list *l) {
    const struct ct_watch_skips *both[] = {&l->skips_of_folder, &l->skips_of_processes};
    size_t n = 0;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->count && i < CT_WATCH_SKIPS && n < CT_WATCH_SKIPS; i++)
            l->skipped[n++] = both[k]->text[i];
    l->skips = both[0]->count + both[1]->count;
}

static void add_skip(struct ct_watch_list *l, const char *folder, const char *name,
                     const char *why) {
    if (!ct_watch_skips_has(&l->skips_of_folder, folder, name))
        ct_watch_skips_add(l->skips_now, folder, name, why);
}

// A journal that was found twice is one process.
static int is_known(const struct ct_watch_list *l, const struct ct_watch_journal *j) {
    for (size_t i = 0; i < l->count; i++) {
        const struct ct_watch_process *p = &l->entries[i].process;
        if (p->head.trace_id == j->head.trace_id && p->state != CT_WATCH_ENDED)
            return 1;
    }
    for (size_t i = 0; i < l->hidden_count; i++)
        if (l->hidden[i] == j->head.trace_id)
            return 1;
    return 0;
}

// Whether a folder's file is one of the processes, so that it need not be opened.
static int is_listed(const struct ct_watch_list *l, const char *folder, const char *name) {
    for (size_t i = 0; i < l->count; i++)
        if (l->entries[i].process.state != CT_WATCH_ENDED &&
            strcmp(l->entries[i].name, name) == 0 && strcmp(l->entries[i].folder, folder) == 0)
            return 1;
    return 0;
}

static char *join(const char *folder, const char *name) {
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = ct_heap_resize(NULL, n, 1);
    (void)snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static void read_program(struct ct_watch_entry *e, const char *trace) {
    struct ct_watch_process *p = &e->process;
    char path[64], text[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%u/comm", p->pid);
    // In another container the pid is of another process here, or of none.
    const int is_seen = ct_process_alive_start_time(p->pid) == e->journal.head.process_start;
    FILE *f = is_seen ? fopen(path, "re") : NULL;
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        (void)fclose(f);
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    p->is_named = *text != 0;
    if (!*text) // its name is not known any more: that of its trace is
        (void)snprintf(text, sizeof text, "%s", trace);
    ct_utf8_sanitize(p->program, sizeof p->program, text, strlen(text));
}

// ---- headers ------------------------------------------------------------------------------------

static enum ct_watch_state find_state(struct ct_watch_entry *e) {
    struct ct_watch_process *p = &e->process;
    if (p->state == CT_WATCH_KILLED) // (also when its journal was sealed meanwhile)
        return CT_WATCH_KILLED;
    if (ct_watch_journal_is_gone(&e->journal))
        return e->folder && ct_finished_was_sealed(e->folder, e->name, e->journal.owner)
                   ? CT_WATCH_KILLED
                   : CT_WATCH_ENDED;
    const uint32_t pid = ct_process_alive_pid(&e->journal.head);
    if (!pid && ct_file_use_find(e->journal.fd) != CT_FILE_IN_USE) // (in another container)
        return CT_WATCH_KILLED;
    p->pid = pid ? pid : e->journal.head.pid;
    return e->journal.head.control & CT_CONTROL_OFF ? CT_WATCH_PAUSED : CT_WATCH_RECORDING;
}

static void set_problem(struct ct_watch_process *p, const char *text) {
    free(p->problem);
    p->problem = NULL;
    if (!text)
        return;
    p->problem = ct_heap_resize(NULL, strlen(text) + 1, 1);
    ct_utf8_sanitize(p->problem, strlen(text) + 1, text, strlen(text));
}

static void take_header(struct ct_watch_entry *e) {
    struct ct_watch_process *p = &e->process;
    const struct ct_journal *head = &e->journal.head;
    const enum ct_watch_state before = p->state;
    p->state = find_state(e);
    e->is_changed |= e->is_open;
    e->is_changed |= p->state != before || p->head.events != head->events ||
                     p->head.bytes_written != head->bytes_written;
    p->is_stale = e->is_changed;
    p->read_ns = ct_now_ns(CLOCK_MONOTONIC);
    if (!ct_watch_is_alive(p) && !p->ended_ns)
        p->ended_ns = p->read_ns;
    p->head = *head;
}

// A journal as a process, or as another one than before.
static void begin_entry(struct ct_watch_entry *e) {
    e->process = (struct ct_watch_process){.pid = e->journal.head.pid};
    e->is_changed = 1;
    take_header(e);
}

static void free_entry(struct ct_watch_entry *e) {
    ct_watch_process_free(&e->process);
    ct_watch_journal_close(&e->journal);
    free(e->folder);
    free(e->name);
}

static void drop(struct ct_watch_list *l, size_t i) {
    free_entry(&l->entries[i]);
    l->count--;
    memmove(&l->entries[i], &l->entries[i + 1], (l->count - i) * sizeof *l->entries);
}

static void add_journal(struct ct_watch_list *l, struct ct_watch_journal *j, const char *folder,
                        const char *name) {
    CT_HEAP_GROW(l->entries, l->count, l->room);
    struct ct_watch_entry *e = &l->entries[l->count];
    *e = (struct ct_watch_entry){.journal = *j};
    begin_entry(e);
    read_program(e, name);
    if (!shows(l, e)) {
        if (l->hidden_count < CT_WATCH_HIDDEN)
            l->hidden[l->hidden_count++] = e->process.head.trace_id;
        ct_watch_journal_close(&e->journal);
        return;
    }
    e->process.trace = join(folder, name);
    e->folder = ct_heap_copy_text(folder);
    e->name = ct_heap_copy_text(name);
    l->count++;
}

// A process that has ended makes room for one that is found, one that was killed for one that runs.
static int make_room(struct ct_watch_list *l, const struct ct_journal *head) {
    const int is_running = ct_process_alive_start_time(head->pid) == head->process_start;
    struct ct_watch_entry *victim = NULL;
    for (size_t i = 0; i < l->count; i++) {
        struct ct_watch_entry *e = &l->entries[i];
        const int state = e->process.state;
        if ((state == CT_WATCH_ENDED || (is_running && state >= CT_WATCH_KILLED)) &&
            (!victim || state > (int)victim->process.state))
            victim = e;
    }
    if (!victim)
        return 0;
    if (victim->process.state != CT_WATCH_ENDED)
        add_skip(l, victim->folder, victim->name, too_many);
    drop(l, (size_t)(victim - l->entries));
    return 1;
}

// A journal that was found: `name` is that of its trace.
static void consider(void *user, const char *folder, const char *name) {
    struct ct_watch_list *l = user;
    struct ct_watch_journal j;
    char why[CT_WATCH_WHY];
    if (is_listed(l, folder, name))
        return;
    if (ct_watch_journal_open(&j, folder, name, why)) {
        add_skip(l, folder, name, why);
    } else if (is_known(l, &j)) {
        ct_watch_journal_close(&j);
    } else if (l->count < CT_WATCH_MOST || make_room(l, &j.head)) {
        add_journal(l, &j, folder, name);
    } else {
        add_skip(l, folder, name, too_many);
        ct_watch_journal_close(&j);
    }
}

// Whether files may have come to a folder since it was searched. Its time tells, once it is so old
// that later changes have another one; files that were skipped may be readable now.
static int has_changed(struct ct_watch_list *l, const char *folder) {
    const uint64_t now = ct_now_ns(CLOCK_REALTIME);
    struct stat st;
    if (stat(folder, &st) || l->skips_of_folder.count)
        return 1;
    const uint64_t changed =
        (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)st.st_mtim.tv_nsec;
    if (l->folder_ns == changed)
        return 0;
    l->folder_ns = now > changed + SETTLED_NS ? changed : 0;
    return 1;
}

static void search_folder(struct ct_watch_list *l, const char *folder, int all) {
    if (!has_changed(l, folder) && !all)
        return;
    l->skips_now = &l->skips_of_folder;
    ct_watch_skips_clear(l->skips_now);
    ct_watch_search_folder(folder, consider, l);
}

static void search_processes(struct ct_watch_list *l) {
    l->skips_now = &l->skips_of_processes;
    ct_watch_skips_clear(l->skips_now);
    if (l->target.kind == CT_WATCH_PID)
        ct_watch_search_process(l->target.pid, consider, l);
    else
        ct_watch_search_processes(consider, l);
}

void ct_watch_list_find(struct ct_watch_list *l, int all) {
    const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
    const int is_folder = l->target.kind == CT_WATCH_DIR;
    char room[4096];
    const char *folder = is_folder ? l->target.text : ct_watch_search_default(room, sizeof room);
    all |= !l->searched_ns || now - l->searched_ns >= SEARCH_NS;
    if (all) { // (a program's name may have changed)
        l->searched_ns = now;
        l->hidden_count = 0;
    }
    // The folder comes first: there the journals of CUTRACE_MEMORY have the names of their traces.
    search_folder(l, folder, all);
    if (all && !is_folder)
        search_processes(l);
    merge_skips(l);
}

static void unlock(const struct ct_watch_list *l) {
    if (l->unlock)
        l->unlock(l->lock_user);
}

static void lock(const struct ct_watch_list *l) {
    if (l->lock)
        l->lock(l->lock_user);
}

// Another journal in the same file is another process.
static void replace_entry(struct ct_watch_entry *e) {
    char *trace = e->process.trace;
    e->process.trace = NULL;
    ct_watch_process_free(&e->process);
    begin_entry(e);
    e->process.trace = trace;
    read_program(e, e->name);
}

static void tick_entry(struct ct_watch_entry *e) {
    char why[CT_WATCH_WHY];
    if (e->process.state == CT_WATCH_ENDED)
        return;
    if (ct_watch_journal_read(&e->journal, why)) {
        e->is_changed |= e->process.state != CT_WATCH_DAMAGED;
        e->process.state = CT_WATCH_DAMAGED;
        set_problem(&e->process, why);
    } else if (e->journal.head.trace_id != e->process.head.trace_id) {
        replace_entry(e);
    } else {
        take_header(e);
    }
}

void ct_watch_list_tick(struct ct_watch_list *l) {
    const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
    l->earned_ns = l->tick_ns ? (now - l->tick_ns) / COST_SHARE : 0;
    l->owed_ns = l->owed_ns > l->earned_ns ? l->owed_ns - l->earned_ns : 0;
    l->tick_ns = now;
    for (size_t i = 0; i < l->count; i++)
        tick_entry(&l->entries[i]);
    if (!l->ticked)
        return;
    unlock(l);
    l->ticked(l->ticked_user);
    lock(l);
}

// ---- details ------------------------------------------------------------------------------------

static int open_files(const struct ct_watch_entry *e, struct ct_watch_reading *r,
                      char why[CT_WATCH_WHY]) {
    struct ct_watch_journal j;
    if (e->process.state != CT_WATCH_ENDED && !ct_watch_journal_is_gone(&e->journal)) {
        if (ct_watch_journal_open(&j, e->folder, e->name, why))
            return -1;
        if (j.head.trace_id != e->process.head.trace_id) {
            ct_watch_journal_close(&j);
            (void)snprintf(why, CT_WATCH_WHY, "another process has taken the file");
            return -1;
        }
        r->journal = j.fd;
    }
    r->trace = ct_watch_trace_open(e->folder, e->name, e->journal.owner, why);
    if (r->trace == -2 && r->journal >= 0)
        close(r->journal);
    return r->trace == -2 ? -1 : 0;
}

void ct_watch_list_read(struct ct_watch_list *l, struct ct_watch_entry *e) {
    struct ct_watch_process *p = &e->process;
    struct ct_watch_reading reading = {.name = p->trace,
                                       .trace = -1,
                                       .journal = -1,
                                       .trace_id = p->head.trace_id,
                                       .now_ns =
                                           ct_watch_is_alive(p) ? ct_now_ns(CLOCK_MONOTONIC) : 0,
                                       .since_ns = l->since_ns,
                                       .before = p->has_details ? &p->details : NULL};
    struct ct_watch_details d;
    struct ct_error error = {.text = ""};
    if (ct_watch_is_alive(p)) // it may have got another name
        read_program(e, e->name);
    e->is_changed = e->is_open = 0;
    if (e->news.trace_id != p->head.trace_id)
        e->news = (struct ct_watch_news){.trace_id = p->head.trace_id};
    reading.fresh_from = e->news.next_event;
    e->tried_ns = ct_now_ns(CLOCK_MONOTONIC);
    if (open_files(e, &reading, error.text)) {
        set_problem(p, error.text);
        return;
    }
    unlock(l);
    const int failed = ct_watch_details_read(&d, &reading, &error);
    lock(l);
    l->owed_ns += d.cost_ns;
    set_problem(p, failed ? error.text : NULL);
    if (failed)
        return;
    ct_watch_details_free(&p->details);
    p->details = d;
    p->has_details = 1;
    p->is_stale = e->is_changed; // (a look came while they were read)
    p->details_ns = e->tried_ns;
    e->is_open = d.fresh.is_open;
    ct_watch_news_note(&e->news, &p->details, p->details_ns);
    if (!p->is_named && *d.program) {
        memcpy(p->program, d.program, sizeof p->program);
        p->is_named = 1;
    }
}

// A trend is of the last minutes: where nothing happens, it becomes another one.
static int is_due(const struct ct_watch_entry *e) {
    return e->is_changed ||
           (ct_watch_is_alive(&e->process) && ct_now_ns(CLOCK_MONOTONIC) - e->tried_ns > ANEW_NS);
}

// Those that were read longest ago come first.
static struct ct_watch_entry *find_oldest(struct ct_watch_list *l) {
    struct ct_watch_entry *best = NULL;
    for (size_t i = 0; i < l->count; i++) {
        struct ct_watch_entry *e = &l->entries[i];
        if (is_due(e) && (!best || e->tried_ns < best->tried_ns))
            best = e;
    }
    return best;
}

// What a tick has earned may be spent before the next one, and what was spent beyond is owed.
static int can_pay(const struct ct_watch_list *l) {
    return !l->owed_ns || l->owed_ns < l->earned_ns;
}

void ct_watch_list_read_some(struct ct_watch_list *l, int first) {
    struct ct_watch_entry *e = NULL;
    if (first >= 0 && (size_t)first < l->count && is_due(&l->entries[first]))
        e = &l->entries[first];
    for (e = e ? e : find_oldest(l); e && can_pay(l); e = find_oldest(l))
        ct_watch_list_read(l, e);
}

void ct_watch_list_forget(struct ct_watch_list *l, uint64_t older_than_ns) {
    const uint64_t now = ct_now_ns(CLOCK_MONOTONIC);
    for (size_t i = l->count; i--;) {
        const struct ct_watch_process *p = &l->entries[i].process;
        if (ct_watch_journal_is_gone(&l->entries[i].journal) && p->ended_ns &&
            now - p->ended_ns > older_than_ns)
            drop(l, i);
    }
}

void ct_watch_list_free(struct ct_watch_list *l) {
    for (size_t i = 0; i < l->count; i++)
        free_entry(&l->entries[i]);
    ct_watch_skips_clear(&l->skips_of_folder);
    ct_watch_skips_clear(&l->skips_of_processes);
    free(l->entries);
    *l = (struct ct_watch_list){.count = 0};
}
