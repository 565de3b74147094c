// SPDX-License-Identifier: Apache-2.0
// A pseudonym is the first part of SHA-256 over a salt and the name. The salt is made of all names
// of the first trace: an attacker who tries one name must know all the others.
#include "copy/scrub.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

enum { SHORT_WORD = 4, LEAST_WORD = 2 };

static const char *const public_packages[] = {
#define CT_PUBLIC_PACKAGE(name) name,
#include "copy/public_names.def"
};
static const char *const public_folders[] = {
#define CT_PUBLIC_FOLDER(prefix) prefix,
#include "copy/public_names.def"
};
static const char *const common_accounts[] = {
#define CT_COMMON_ACCOUNT(name) name,
#include "copy/public_names.def"
};
// Libraries whose functions are public, wherever the file lies.
static const char *const public_modules[] = {
    "libtorch", "libc10",    "libcuda",   "libcudart", "libnccl",    "libcublas",   "libcudnn",
    "libc.so",  "libpython", "libstdc++", "libcufft",  "libcutrace", "libpthread.", "python"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct ct_string piece(const char *from, const char *to) {
    return (struct ct_string){from, (uint32_t)(to - from)};
}

static int is_equal(struct ct_string s, const char *text) {
    return s.length == strlen(text) && memcmp(s.at, text, s.length) == 0;
}

static int begins_with(struct ct_string s, const char *text) {
    const size_t n = strlen(text);
    return s.length >= n && memcmp(s.at, text, n) == 0;
}

static int is_one_of(struct ct_string s, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_equal(s, list[i]))
            return 1;
    return 0;
}

static int begins_with_any(struct ct_string s, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (begins_with(s, list[i]))
            return 1;
    return 0;
}

// ---- words --------------------------------------------------------------------------------------

static void add_word(struct ct_scrub *s, struct ct_string word) {
    int digits = 1;
    for (uint32_t i = 0; i < word.length; i++)
        digits &= isdigit((unsigned char)word.at[i]) != 0;
    if (word.length < LEAST_WORD || word.length > 255 || digits || memchr(word.at, 0, word.length))
        return;
    if (is_one_of(word, common_accounts, COUNT(common_accounts)) ||
        is_one_of(word, (const char *const *)s->words, s->word_count))
        return;
    CT_HEAP_GROW(s->words, s->word_count, s->word_capacity);
    char *copy = strndup(word.at, word.length);
    if (!copy)
        ct_heap_exhausted();
    s->words[s->word_count++] = copy;
}

static void add_words(struct ct_scrub *s, const char *list, const char *separators) {
    for (; list && *list; list += strspn(list, separators)) {
        const size_t n = strcspn(list, separators);
        add_word(s, piece(list, list + n));
        list += n;
    }
}

static int is_word_part(unsigned char c) {
    return isalnum(c) || c >= 0x80;
}

// The next place of a word that stands alone; NULL: there is none.
static const char *find_word(const char *word, const char *at, const char *end) {
    const size_t n = strlen(word);
    for (const char *p = at; (size_t)(end - p) >= n; p++)
        if (tolower((unsigned char)*p) == tolower((unsigned char)*word) &&
            strncasecmp(p, word, n) == 0 && (p == at || !is_word_part((unsigned char)p[-1])) &&
            (p + n == end || !is_word_part((unsigned char)p[n])))
            return p;
    return NULL;
}

// ---- pseudonyms ---------------------------------------------------------------------------------

static const struct {
    const char *name, *plural, *prefix;
} classes[] = {
#define CT_X(NAME, name, plural, prefix) {name, plural, prefix},
    CT_SCRUB_CLASSES(CT_X)
#undef CT_X
};

static uint64_t digest(const struct ct_scrub *s, struct ct_string name) {
    uint8_t bytes[CT_SHA256_BYTES];
    struct ct_sha256 h;
    uint64_t v = 0;
    ct_sha256_begin(&h);
    ct_sha256_add(&h, s->salt, sizeof s->salt);
    ct_sha256_add(&h, name.at, name.length);
    ct_sha256_end(&h, bytes);
    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | bytes[i];
    return v;
}

static void count(struct ct_scrub *s, enum ct_scrub_class class, struct ct_string name) {
    uint64_t *at = ct_map_add(&s->seen, digest(s, name) + class);
    s->replaced[class] += !*at;
    *at = 1;
}

static void put(struct ct_buffer *to, const char *text) {
    ct_buffer_append(to, text, strlen(text));
}

static void put_pseudonym(struct ct_scrub *s, struct ct_buffer *to, enum ct_scrub_class class,
                          struct ct_string name) {
    char text[40];
    // (in 32 bits, two of the 100,000 names of a large trace are likely to be one)
    (void)snprintf(text, sizeof text, "%s-%016" PRIx64, classes[class].prefix, digest(s, name));
    count(s, class, name);
    put(to, text);
}

// Appends text with every word replaced.
static void put_without_words(struct ct_scrub *s, struct ct_buffer *to, struct ct_string text) {
    const char *at = text.at, *end = text.at + text.length;
    while (at < end) {
        const char *first = end;
        size_t word = 0;
        for (size_t i = 0; i < s->word_count; i++) {
            // (what stands before `at` is a boundary, or was a word's end)
            const char *found = find_word(s->words[i], at, end);
            if (found && (found < first ||
                          (found == first && strlen(s->words[i]) > strlen(s->words[word])))) {
                first = found;
                word = i;
            }
        }
        ct_buffer_append(to, at, (size_t)(first - at));
        if (first == end)
            return;
        char lower[256];
        const size_t n = strlen(s->words[word]);
        for (size_t i = 0; i < n; i++)
            lower[i] = (char)tolower((unsigned char)first[i]);
        put_pseudonym(s, to, CT_SCRUB_WORD, piece(lower, lower + n));
        at = first + n;
    }
}

// ---- paths --------------------------------------------------------------------------------------

static int is_public_package(struct ct_string component) {
    return is_one_of(component, public_packages, COUNT(public_packages));
}

static struct ct_string next_component(const char *at, const char *end) {
    const char *slash = memchr(at, '/', (size_t)(end - at));
    return piece(at, slash ? slash : end);
}

// Behind the home that a path begins with: a folder "home" or "Users" and the user's; /root.
static const char *skip_home(const char *at, const char *end, struct ct_string *user) {
    const char *behind = NULL;
    *user = (struct ct_string){NULL, 0};
    if (begins_with(piece(at, end), "/root") && (end - at == 5 || at[5] == '/'))
        return at + 5;
    for (const char *p = at; p < end && !behind;) {
        const struct ct_string c = next_component(p, end);
        p += c.length + (p + c.length < end);
        if ((is_equal(c, "home") || is_equal(c, "Users")) && p < end && c.at > at) {
            *user = next_component(p, end);
            behind = user->length ? p + user->length : NULL;
        }
    }
    return behind;
}

// Where the part of a path begins that is the same on every machine; NULL: nowhere. `site`: it is a
// folder of Python's packages.
static const char *find_public(const char *at, const char *end, int *site) {
    const char *first = NULL;
    int was_public = 0;
    *site = 0;
    for (const char *p = at; p < end;) {
        const struct ct_string c = next_component(p, end);
        const char *next = p + c.length + 1;
        if (is_equal(c, "site-packages") || is_equal(c, "dist-packages")) {
            *site = 1;
            return next < end && is_public_package(next_component(next, end)) ? p : NULL;
        }
        if (begins_with(c, "python3") && p > at + 4 && memcmp(p - 4, "lib/", 4) == 0)
            first = first ? first : p - 4;
        if (is_public_package(c) && next < end && (!first || was_public))
            first = p;
        was_public = is_public_package(c);
        p = next;
    }
    return first;
}

static void put_file(struct ct_scrub *s, struct ct_buffer *to, struct ct_string name) {
    const char *dot = memrchr(name.at, '.', name.length);
    if (s->level < CT_SCRUB_STRICT || !name.length || *name.at == '<') {
        put_without_words(s, to, name);
        return;
    }
    put_pseudonym(s, to, CT_SCRUB_FILE, name);
    if (dot && name.at + name.length - dot < 8)
        put_without_words(s, to, piece(dot, name.at + name.length));
}

// Folders of generated code, which noise.def knows.
static int is_cache(struct ct_string name) {
    static const char *const caches[] = {"tmp", "inductor_cache", "torch_compile_cache",
                                         "torch_aot_compile"};
    return is_one_of(name, caches, COUNT(caches));
}

static void put_folder(struct ct_scrub *s, struct ct_buffer *to, struct ct_string name) {
    if (!name.length || is_equal(name, ".") || is_equal(name, "..") ||
        is_equal(name, "site-packages") || is_equal(name, "dist-packages") || is_cache(name)) {
        ct_buffer_append(to, name.at, name.length);
        return;
    }
    if (begins_with(name, "torchinductor_")) // its end is the name of a user
        put(to, "torchinductor_");
    put_pseudonym(s, to, CT_SCRUB_FOLDER, name);
}

static int is_public_folder(struct ct_string path) {
    return begins_with_any(path, public_folders, COUNT(public_folders));
}

// Appends folders up to `to`, which is after a slash or is the end.
static void put_folders(struct ct_scrub *s, struct ct_buffer *out, const char *at, const char *to) {
    while (at < to) {
        const struct ct_string c = next_component(at, to);
        put_folder(s, out, c);
        at += c.length;
        if (at < to)
            ct_buffer_append(out, at++, 1);
    }
}

static void put_path(struct ct_scrub *s, struct ct_buffer *to, struct ct_string path) {
    const char *at = path.at, *end = path.at + path.length;
    struct ct_string user;
    int site;
    const char *behind = skip_home(at, end, &user);
    if (behind) {
        count(s, CT_SCRUB_HOME, piece(at, behind));
        put(to, "~");
        at = behind;
    }
    const char *public = find_public(at, end, &site);
    if (!public && !behind && !site && is_public_folder(path)) {
        put_without_words(s, to, path);
        return;
    }
    if (public && site) { // (rules ask for the folder's name)
        count(s, CT_SCRUB_SITE, piece(path.at, public));
        to->n -= behind ? 1 : 0;
        put(to, "/<site>/"); // (a name that begins with < is no file)
    } else if (public) {
        put_folders(s, to, at, public);
    }
    if (public) {
        put_without_words(s, to, piece(public, end));
        return;
    }
    const char *slash = memrchr(at, '/', (size_t)(end - at));
    const char *file = slash ? slash + 1 : at;
    put_folders(s, to, at, file);
    put_file(s, to, piece(file, end));
}

static int is_public_module(struct ct_string name) {
    return begins_with_any(name, public_modules, COUNT(public_modules));
}

static int is_public_path(struct ct_string path) {
    int site;
    const char *end = path.at + path.length;
    const char *slash = memrchr(path.at, '/', path.length);
    const struct ct_string file = piece(slash ? slash + 1 : path.at, end);
    if (is_public_module(file))
        return 1;
    return begins_with(path, "<") || is_public_folder(path) || find_public(path.at, end, &site);
}

// ---- texts --------------------------------------------------------------------------------------

static int is_number(struct ct_string text) {
    size_t n = 0;
    while (n < text.length && (isdigit((unsigned char)text.at[n]) || text.at[n] == '.'))
        n++;
    return n && n == text.length && isdigit((unsigned char)*text.at);
}

// A rate or a part ("tokens/s", "3/12", "19.39/24.0"), which is no path.
static int is_fraction(struct ct_string token) {
    const char *slash = memchr(token.at, '/', token.length), *end = token.at + token.length;
    if (!slash || slash == token.at || memchr(slash + 1, '/', (size_t)(end - slash - 1)))
        return 0;
    const struct ct_string part = piece(token.at, slash), whole = piece(slash + 1, end);
    return whole.length <= 1 ||
           (is_number(whole) && (!memchr(whole.at, '.', whole.length) || is_number(part)));
}

// Appends a text in which paths may stand.
static void put_text(struct ct_scrub *s, struct ct_buffer *to, struct ct_string text) {
    static const char ends[] = " \t\n\r\"'`=:,;()[]{}|<>";
    const char *at = text.at, *end = text.at + text.length;
    struct ct_buffer made = {0};
    while (at < end) {
        const char *behind = at;
        while (behind < end && (!*behind || !strchr(ends, *behind)))
            behind++;
        const struct ct_string token = piece(at, behind);
        if (memchr(token.at, '/', token.length) && !is_fraction(token))
            put_path(s, &made, token);
        else
            ct_buffer_append(&made, token.at, token.length);
        at = behind;
        if (at < end)
            ct_buffer_append(&made, at++, 1);
    }
    put_without_words(s, to, (struct ct_string){(const char *)made.at, (uint32_t)made.n});
    free(made.at);
}

// ---- a trace ------------------------------------------------------------------------------------

void ct_scrub_init(struct ct_scrub *s, enum ct_scrub_level level, const char *salt,
                   const char *words) {
    char host[256] = "";
    const char *home = getenv("HOME"), *slash = home ? strrchr(home, '/') : NULL;
    *s = (struct ct_scrub){.level = level};
    add_words(s, words, ",");
    add_words(s, getenv("USER"), "");
    add_words(s, getenv("LOGNAME"), "");
    add_words(s, slash ? slash + 1 : NULL, "");
    if (gethostname(host, sizeof host - 1) == 0) {
        add_words(s, host, "");
        host[strcspn(host, ".")] = 0;
        add_words(s, host, "");
    }
    if (salt) {
        struct ct_sha256 h;
        ct_sha256_begin(&h);
        ct_sha256_add(&h, salt, strlen(salt));
        ct_sha256_end(&h, s->salt);
        s->salted = 1;
    }
}

static void make_salt(struct ct_scrub *s, const struct ct_definitions *names) {
    struct ct_sha256 h;
    ct_sha256_begin(&h);
    for (size_t i = 1; i < names->string_count; i++) {
        ct_sha256_add(&h, &names->strings[i].length, sizeof names->strings[i].length);
        ct_sha256_add(&h, names->strings[i].at, names->strings[i].length);
    }
    ct_sha256_end(&h, s->salt);
    s->salted = 1;
}

// Users whose homes a text names.
static void learn_users(struct ct_scrub *s, struct ct_string text) {
    const char *at = text.at, *end = text.at + text.length;
    struct ct_string user;
    while (at < end && (at = skip_home(at, end, &user))) {
        uint32_t n = 0;
        while (n < user.length && (isalnum((unsigned char)user.at[n]) || user.at[n] == '-' ||
                                   user.at[n] == '_' || user.at[n] == '.'))
            n++;
        add_word(s, (struct ct_string){user.at, n});
    }
}

void ct_scrub_learn_text(struct ct_scrub *s, struct ct_string text) {
    const char *at = text.at, *const end = text.at + text.length, *behind;
    for (; at < end; at = behind + 1) {
        behind = memchr(at, '\n', (size_t)(end - at));
        behind = behind ? behind : end;
        learn_users(s, piece(at, behind));
    }
}

void ct_scrub_text(struct ct_scrub *s, struct ct_buffer *to, struct ct_string text) {
    put_text(s, to, text);
}

void ct_scrub_learn(struct ct_scrub *s, const struct ct_definitions *names) {
    if (!s->salted)
        make_salt(s, names);
    for (size_t i = 1; i < names->string_count; i++)
        if (memchr(names->strings[i].at, '/', names->strings[i].length))
            learn_users(s, names->strings[i]);
}

void ct_scrub_free(struct ct_scrub *s) {
    for (size_t i = 0; i < s->word_count; i++)
        free(s->words[i]);
    free(s->words);
    free(s->text.at);
    ct_map_free(&s->seen);
    *s = (struct ct_scrub){.level = CT_SCRUB_NO};
}

static struct ct_string finish(struct ct_scrub *s) {
    if (s->text.n > CT_MAX_STRING)
        s->text.n = CT_MAX_STRING;
    const char *left = ct_scrub_find(s, s->text.at, s->text.n, 1);
    if (left && !*s->left)
        (void)snprintf(s->left, sizeof s->left, "%s", left);
    return (struct ct_string){s->text.at ? (const char *)s->text.at : "", (uint32_t)s->text.n};
}

static int is_public_frame(const struct ct_scrub *s, const struct ct_frame *f) {
    const uint32_t path = f->kind == CT_FRAME_PYTHON ? f->file : s->names->modules[f->module].path;
    return is_public_path(s->names->strings[path]);
}

static int is_common_function(struct ct_string name) {
    return is_equal(name, "main") || begins_with(name, "<") || is_equal(name, "_start");
}

struct ct_string ct_scrub_rename(void *user, enum ct_name_role role, const struct ct_frame *frame,
                                 const struct ct_string *name) {
    struct ct_scrub *s = user;
    const int strict = s->level == CT_SCRUB_STRICT;
    s->text.n = 0;
    if (role == CT_NAME_FILE)
        put_path(s, &s->text, *name);
    else if (role == CT_NAME_NOTE && strict)
        put_pseudonym(s, &s->text, CT_SCRUB_VALUE, *name);
    else if (role == CT_NAME_NOTE)
        put_text(s, &s->text, *name);
    else if (role == CT_NAME_THREAD && strict && !begins_with(*name, "pt_") &&
             !begins_with(*name, "python"))
        put_pseudonym(s, &s->text, CT_SCRUB_THREAD, *name);
    else if (role == CT_NAME_FUNCTION && strict && frame && !is_public_frame(s, frame) &&
             !is_common_function(*name))
        put_pseudonym(s, &s->text, CT_SCRUB_FUNCTION, *name);
    else
        put_without_words(s, &s->text, *name);
    return finish(s);
}

static int is_hash(struct ct_string key) {
    static const char uuid[] = ".uuid_hash";
    const size_t n = sizeof uuid - 1;
    return is_equal(key, "host.name_hash") || is_equal(key, "host.boot_hash") ||
           is_equal(key, "process.pid_namespace_hash") || is_equal(key, "process.image_hash") ||
           (key.length > n && memcmp(key.at + key.length - n, uuid, n) == 0);
}

// Whether a value may be a name: it is no number, no switch, no version.
static int may_be_name(struct ct_string value) {
    if (is_equal(value, "true") || is_equal(value, "false") || is_equal(value, "auto") ||
        is_equal(value, "<given>") || is_equal(value, "self") || is_equal(value, "parent"))
        return 0;
    for (uint32_t i = 0; i < value.length; i++)
        if (isalpha((unsigned char)value.at[i]))
            return 1;
    return 0;
}

static int is_setting(struct ct_string key) {
    static const char from[] = ".from";
    if (key.length > 5 && memcmp(key.at + key.length - 5, from, 5) == 0)
        return 0;
    return begins_with(key, "flag.") || begins_with(key, "process.env.") ||
           is_equal(key, "process.argv") || is_equal(key, "host.kernel") ||
           begins_with(key, "option.") || begins_with(key, "static.largest.");
}

// Names of modules and of programs that a look of the recorder's has found.
static int is_found_name(struct ct_string key) {
    return begins_with(key, "coverage.bound_elsewhere.") ||
           begins_with(key, "coverage.looks_up_elsewhere.") ||
           begins_with(key, "look_ups.resolver.") ||
           is_equal(key, "coverage.children_without_library_names");
}

struct ct_string ct_scrub_rename_info(void *user, const struct ct_string *key,
                                      const struct ct_string *value) {
    struct ct_scrub *s = user;
    const int strict = s->level == CT_SCRUB_STRICT;
    char text[24];
    s->text.n = 0;
    if (strict && is_found_name(*key) && !is_public_module(*value)) {
        put_pseudonym(s, &s->text, CT_SCRUB_VALUE, *value);
    } else if (is_hash(*key)) {
        (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)digest(s, *value));
        count(s, CT_SCRUB_HASH, *value);
        put(&s->text, text);
    } else if (strict && ((is_setting(*key) && may_be_name(*value)) ||
                          (is_equal(*key, "process.exe") && !begins_with(*value, "python")))) {
        put_pseudonym(s, &s->text, CT_SCRUB_VALUE, *value);
    } else {
        put_text(s, &s->text, *value);
    }
    return finish(s);
}

// ---- the second pass ----------------------------------------------------------------------------

// A home that was written out, at a place where a path may begin.
static int has_home(const char *at, const char *end) {
    static const char *const homes[] = {"/home/", "/Users/", "/root/"};
    for (const char *p = at; p < end && (p = memchr(p, '/', (size_t)(end - p))); p++)
        for (size_t i = 0; i < COUNT(homes); i++) {
            const size_t n = strlen(homes[i]);
            if ((size_t)(end - p) > n && memcmp(p, homes[i], n) == 0 &&
                isalnum((unsigned char)p[n]) &&
                (i < 2 || p == at || !is_word_part((unsigned char)p[-1])))
                return 1;
        }
    return 0;
}

const char *ct_scrub_find(const struct ct_scrub *s, const void *bytes, size_t n, int is_text) {
    const char *at = bytes, *end = at + n;
    if (!n)
        return NULL;
    for (size_t i = 0; i < s->word_count; i++)
        if ((is_text || strlen(s->words[i]) >= SHORT_WORD) && find_word(s->words[i], at, end))
            return s->words[i];
    return has_home(at, end) ? "a home folder" : NULL;
}

const char *ct_scrub_level_name(enum ct_scrub_level level) {
    static const char *const names[] = {"no", "paths", "strict"};
    return names[level];
}

const char *ct_scrub_class_name(enum ct_scrub_class class) {
    return classes[class].name;
}

const char *ct_scrub_class_plural(enum ct_scrub_class class) {
    return classes[class].plural;
}
