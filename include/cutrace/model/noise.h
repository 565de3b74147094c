// SPDX-License-Identifier: Apache-2.0
// Noise: frames that do not name the code that asked for memory. The table is noise.def.
//
// Header-only, because the report and the recorder's line about a failed allocation must name the
// same code.
#ifndef CUTRACE_NOISE_H
#define CUTRACE_NOISE_H

#include <stddef.h>
#include <string.h>

enum ct_noise_subject { CT_NOISE_MODULE, CT_NOISE_FUNCTION, CT_NOISE_FILE };

enum ct_noise_group {
    CT_NOISE_NONE,
#define CT_NOISE_GROUP(NAME, title, reason) CT_NOISE_##NAME,
#include <cutrace/model/noise.def>
    CT_NOISE_GROUPS
};

struct ct_noise_row {
    enum ct_noise_subject subject;
    int keep;            // names that match are no noise
    const char *pattern; // NULL: the row begins a group
};

// The rows in the order of the table; *count is set to their number.
static inline const struct ct_noise_row *ct_noise_rows(size_t *count) {
    static const struct ct_noise_row rows[] = {
#define CT_NOISE_GROUP(NAME, title, reason) {CT_NOISE_MODULE, 0, NULL},
#define CT_NOISE(subject, pattern) {CT_NOISE_##subject, 0, pattern},
#define CT_NOISE_KEEP(subject, pattern) {CT_NOISE_##subject, 1, pattern},
#include <cutrace/model/noise.def>
    };
    *count = sizeof rows / sizeof *rows;
    return rows;
}

// A pattern has a star at the beginning, at the end, or at both.
static inline int ct_noise_matches(const char *pattern, const char *name) {
    const size_t n = strlen(pattern), length = strlen(name);
    const int open_start = pattern[0] == '*', open_end = pattern[n - 1] == '*';
    if (open_start && open_end) {
        for (size_t i = 0; i + (n - 2) <= length; i++)
            if (memcmp(name + i, pattern + 1, n - 2) == 0)
                return 1;
        return 0;
    }
    if (open_start)
        return length >= n - 1 && strcmp(name + length - (n - 1), pattern + 1) == 0;
    return open_end ? strncmp(name, pattern, n - 1) == 0 : strcmp(name, pattern) == 0;
}

// The group of the first row whose pattern matches a name (NUL-terminated), CT_NOISE_NONE if there
// is none or its names are kept. *kept: whether they are.
static inline enum ct_noise_group ct_noise_look_up(enum ct_noise_subject subject, const char *name,
                                                   int *kept) {
    // A module has the path of its file; most patterns want its base name.
    const char *slash = subject == CT_NOISE_MODULE ? strrchr(name, '/') : NULL;
    size_t count;
    const struct ct_noise_row *rows = ct_noise_rows(&count);
    unsigned group = CT_NOISE_NONE;
    *kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].pattern) {
            group++;
            continue;
        }
        const int is_base = slash && !strchr(rows[i].pattern, '/');
        if (rows[i].subject == subject &&
            ct_noise_matches(rows[i].pattern, is_base ? slash + 1 : name)) {
            *kept = rows[i].keep;
            return rows[i].keep ? CT_NOISE_NONE : (enum ct_noise_group)group;
        }
    }
    return CT_NOISE_NONE;
}

static inline enum ct_noise_group ct_noise_classify(enum ct_noise_subject subject,
                                                    const char *name) {
    int kept;
    return ct_noise_look_up(subject, name, &kept);
}

// The group of a native frame by the path of its module and its function, "" where unknown. A
// function that the table keeps is no noise in any module but ours. A function of a package that
// another group has is of that group.
static inline enum ct_noise_group ct_noise_classify_native(const char *module,
                                                           const char *function) {
    int kept;
    const enum ct_noise_group of_module = ct_noise_classify(CT_NOISE_MODULE, module);
    const enum ct_noise_group of_function = ct_noise_look_up(CT_NOISE_FUNCTION, function, &kept);
    if (of_module == CT_NOISE_PACKAGES && of_function != CT_NOISE_NONE)
        return of_function;
    if (of_module == CT_NOISE_OURS || (of_module != CT_NOISE_NONE && !kept))
        return of_module;
    return of_function;
}

// The group of a line of Python. Code without a file ("<string>") is told apart by its function,
// too.
static inline enum ct_noise_group ct_noise_classify_python(const char *file, const char *function) {
    char both[256];
    const size_t n = strlen(file), more = strlen(function);
    if (*file != '<' || n + 1 + more >= sizeof both)
        return ct_noise_classify(CT_NOISE_FILE, file);
    memcpy(both, file, n + 1);
    both[n] = ' ';
    memcpy(both + n + 1, function, more + 1);
    return ct_noise_classify(CT_NOISE_FILE, both);
}

// Reads the next name of a mangled one, "3foo", and moves *at after it. Returns its length and, in
// *name, where it begins; 0 if there is none.
static inline size_t ct_noise_next_name(const char **at, const char *end, const char **name) {
    const char *from = *at;
    size_t n = 0;
    if (end - from > 1 && *from == 'L') // of internal linkage
        from++;
    while (from < end && *from >= '0' && *from <= '9' && n < (size_t)(end - from))
        n = n * 10 + (size_t)(*from++ - '0');
    if (!n || n > (size_t)(end - from))
        return 0;
    *name = from;
    *at = from + n;
    return n;
}

// Whether a mangled nested name may have it before its first part: restrict, volatile, const, &,
// &&.
static inline int ct_noise_is_qualifier(char c) {
    return c == 'r' || c == 'V' || c == 'K' || c == 'R' || c == 'O';
}

// Copies the qualified name that a symbol of C++ begins with, up to its template arguments:
// "a::b" of _ZN1a1bIiEEvT_, and of a lambda in it. Other symbols are copied as they are. It is for
// patterns that name a namespace, where nobody demangles.
static inline void ct_noise_plain_name(const char *symbol, size_t length, char *to, size_t size) {
    const char *at = symbol + 2, *const end = symbol + length, *name;
    size_t used = 0, n;
    if (length > 3 && memcmp(symbol, "_Z", 2) == 0) {
        at += *at == 'Z'; // of a lambda: where it is
        const int nested = *at == 'N';
        for (at += nested; nested && at < end && ct_noise_is_qualifier(*at); at++)
            ;
        const int of_std = end - at > 1 && memcmp(at, "St", 2) == 0;
        at += of_std ? 2 : 0;
        for (int more = 1; more && (n = ct_noise_next_name(&at, end, &name)); more = nested) {
            const size_t between = used || of_std ? 2 : 0, std = of_std && !used ? 3 : 0;
            if (used + std + between + n >= size)
                break;
            memcpy(to + used, "std", std);
            memcpy(to + used + std, "::", between);
            memcpy(to + used + std + between, name, n);
            used += std + between + n;
        }
    }
    if (!used) {
        used = length < size ? length : size - 1;
        memcpy(to, symbol, used);
    }
    to[used] = 0;
}

// ---- ranks of frames ----------------------------------------------------------------------------

// How well a frame names a call site; lower is better.
enum ct_frame_rank {
    CT_RANK_NAMED = 1, // a function of the program, or of a library that allocates for itself
    CT_RANK_PACKAGE,   // a native function of an installed package of Python's
    CT_RANK_NAMELESS,  // a native function of any of them whose name is not known
    CT_RANK_WRAPPER,   // a line of Python that is noise
    CT_RANK_NOISE,     // a native function that is
    CT_RANK_OURS,      // cutrace's own, or no frame at all
    CT_RANKS,
};

// The rank of a native frame with a name.
static inline enum ct_frame_rank ct_noise_rank(enum ct_noise_group group) {
    if (group == CT_NOISE_NONE)
        return CT_RANK_NAMED;
    if (group == CT_NOISE_PACKAGES)
        return CT_RANK_PACKAGE;
    return group == CT_NOISE_OURS ? CT_RANK_OURS : CT_RANK_NOISE;
}

// The recorder's line about a failed allocation ranks frames as the report does, except that
// CUDA's never name a call site, and that the functions of a module whose symbols are not loaded
// are not known yet. Pure functions; any thread.

enum { CT_CALLER_FILE = 512, CT_CALLER_FUNCTION = 256 }; // longer names are cut

static inline void ct_caller_copy(const char *text, size_t bytes, char *to, size_t size) {
    const size_t n = bytes < size ? bytes : size - 1;
    if (n)
        memcpy(to, text, n);
    to[n] = 0;
}

// Copies the end of a path: it tells more than the beginning.
static inline void ct_caller_copy_path(const char *path, size_t bytes, char *to, size_t size) {
    const size_t cut = bytes >= size ? bytes - size + 1 : 0;
    ct_caller_copy(path + cut, bytes - cut, to, size);
}

// Ranks a line of Python. The texts are not NUL-terminated.
static inline enum ct_frame_rank ct_caller_rank_python(const char *file, size_t file_bytes,
                                                       const char *function,
                                                       size_t function_bytes) {
    char path[CT_CALLER_FILE], name[CT_CALLER_FUNCTION];
    ct_caller_copy_path(file, file_bytes, path, sizeof path);
    ct_caller_copy(function, function_bytes, name, sizeof name);
    return ct_noise_classify_python(path, name) == CT_NOISE_NONE ? CT_RANK_NAMED : CT_RANK_WRAPPER;
}

// Ranks a native frame by the path of its module and its symbol (NULL: not known).
static inline enum ct_frame_rank ct_caller_rank_native(const char *module, const char *symbol,
                                                       size_t bytes) {
    char function[CT_CALLER_FUNCTION] = "";
    if (symbol)
        ct_noise_plain_name(symbol, bytes, function, sizeof function);
    const enum ct_noise_group group = ct_noise_classify_native(module, function);
    const enum ct_frame_rank rank = ct_noise_rank(group);
    if (group == CT_NOISE_CUDA)
        return CT_RANK_OURS;
    return !symbol && rank <= CT_RANK_PACKAGE ? CT_RANK_NAMELESS : rank;
}

#endif
