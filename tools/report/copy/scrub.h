// SPDX-License-Identifier: Apache-2.0
// Names of a trace become pseudonyms before it is given to others. BUNDLE.md says what each level
// leaves. The same name has the same pseudonym in all traces that one struct ct_scrub is used for.
#ifndef CT_SCRUB_H
#define CT_SCRUB_H

#include "base/checksum.h"
#include "base/id_set.h"
#include "copy/trace_writer.h"

enum ct_scrub_level { CT_SCRUB_NO, CT_SCRUB_PATHS, CT_SCRUB_STRICT };

// What names are replaced: NAME, name, plural, the pseudonym's first part.
#define CT_SCRUB_CLASSES(X)                           \
    X(HOME, "home", "homes", "~")                     \
    X(SITE, "site", "site folders", "<site>")         \
    X(FOLDER, "folder", "folders", "dir")             \
    X(WORD, "word", "users and hosts", "name")        \
    X(HASH, "hash", "hashes of hosts and GPUs", "id") \
    X(FILE, "file", "files", "file")                  \
    X(FUNCTION, "function", "functions", "fn")        \
    X(THREAD, "thread", "threads", "thread")          \
    X(VALUE, "value", "settings and notes", "value")

enum ct_scrub_class {
#define CT_X(NAME, name, plural, prefix) CT_SCRUB_##NAME,
    CT_SCRUB_CLASSES(CT_X)
#undef CT_X
        CT_SCRUB_CLASS_COUNT
};

struct ct_scrub {
    enum ct_scrub_level level;
    const struct ct_definitions *names; // of the trace in work
    uint8_t salt[CT_SHA256_BYTES];
    int salted;
    // Names of users and hosts, which must not be left anywhere.
    char **words;
    size_t word_count, word_capacity;
    uint64_t replaced[CT_SCRUB_CLASS_COUNT]; // different names
    struct ct_map seen;                      // of them
    struct ct_buffer text;                   // the last result
    char left[64];                           // a word that is left in a result, or ""
};

// `salt` and `words` (separated by commas) may be NULL; without a salt it is made of the names of
// the first trace. Adds the user and the host of this process to the words.
void ct_scrub_init(struct ct_scrub *s, enum ct_scrub_level level, const char *salt,
                   const char *words);
// To be called with each trace before names of any are asked for: finds users in its paths.
void ct_scrub_learn(struct ct_scrub *s, const struct ct_definitions *names);
// The same of a text, whose users are looked for in all traces, too.
void ct_scrub_learn_text(struct ct_scrub *s, struct ct_string text);
void ct_scrub_free(struct ct_scrub *s);
// Appends a text of some lines with its paths and words replaced.
void ct_scrub_text(struct ct_scrub *s, struct ct_buffer *to, struct ct_string text);
// For ct_copy_request: `user` is a struct ct_scrub whose `names` are those of the trace.
struct ct_string ct_scrub_rename(void *user, enum ct_name_role role, const struct ct_frame *frame,
                                 const struct ct_string *name);
struct ct_string ct_scrub_rename_info(void *user, const struct ct_string *key,
                                      const struct ct_string *value);
// The word, or the home, that is left in some bytes; NULL if none is. `is_text`: short words count,
// too, which in other bytes are there by chance.
const char *ct_scrub_find(const struct ct_scrub *s, const void *bytes, size_t n, int is_text);
const char *ct_scrub_level_name(enum ct_scrub_level level);
const char *ct_scrub_class_name(enum ct_scrub_class class); // for JSON
const char *ct_scrub_class_plural(enum ct_scrub_class class);

#endif
