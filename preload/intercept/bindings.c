// SPDX-License-Identifier: Apache-2.0
// Modules are found in /proc/self/maps, because the loader lists only those of the namespace that
// asks, and under its lock. Of each the undefined symbols with a hooked name are found first; few
// modules have any. Then the slots that the loader has filled in for them are read.
//
// Nothing here is believed: a module may be unloaded, and its addresses used again, at any time.
#define _GNU_SOURCE
#include "intercept/bindings.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "base/files.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/read_file.h"
#include "intercept/cuda_api.h"
#include "intercept/own_image.h"
#include "write/info_table.h"

#if defined(__aarch64__)
enum { R_SLOT = R_AARCH64_JUMP_SLOT, R_GLOBAL = R_AARCH64_GLOB_DAT, R_ADDRESS = R_AARCH64_ABS64 };
#else
enum { R_SLOT = R_X86_64_JUMP_SLOT, R_GLOBAL = R_X86_64_GLOB_DAT, R_ADDRESS = R_X86_64_64 };
#endif

#define MODULES 4096u
#define TARGETS 4u         // modules that one module is bound to
#define HOOKED 512u        // undefined symbols of one module with a hooked name
#define SYMBOLS (1u << 18) // of a module
#define TEXT_BYTES (256u << 10)
#define SEARCHED_BYTES (32u << 20) // of a module, for names of the driver's functions
#define PATH_BYTES 256u

static const char *const hooked_names[] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) #symbol,
#define CT_RTHOOK(symbol, params, args, effect) #symbol,
#define CT_TORCH(symbol, params, args, effect) #symbol,
#include "intercept/hooks.def"
};

// A module, from its first mapping to the end of its segments.
struct module {
    uint64_t start, end, base, dynamic;
    uint64_t inode, device;
    int is_executable, is_done; // done: all its symbols are bound
    int had_unknown;            // at the last look some were bound to what is no module
    char path[PATH_BYTES];
};

// The writer thread's.
static struct module *modules; // MODULES of them, by address
static unsigned count, unreadable;
static int memory_fd = -1;

// ---- this process's memory ----------------------------------------------------------------------
// Another thread may unmap it meanwhile: a failed read is an error, and no signal. It is read from
// /proc/self/mem, which a thread of the process may always open, and no seccomp filter of a
// container forbids (process_vm_readv it may).

// Returns 0, or -errno if memory cannot be read in this way.
static int open_memory(void) {
    memory_fd = ct_open("/proc/self/mem", O_RDONLY);
    return memory_fd < 0 ? -errno : 0;
}

static void close_memory(void) {
    ct_close(memory_fd);
    memory_fd = -1;
}

// Reads n bytes. Returns how many could be read.
static size_t read_memory(uint64_t address, void *to, size_t n) {
    const ssize_t got = ct_pread(memory_fd, to, n, (off_t)address);
    return got > 0 ? (size_t)got : 0;
}

// ---- finding modules ----------------------------------------------------------------------------

// Reads the segments of a module that is mapped at `start`. Returns 0, or -1: it is no such file.
static int read_segments(struct module *m) {
    ElfW(Ehdr) e;
    ElfW(Phdr) p[32];
    uint64_t first = UINT64_MAX, last = 0;
    if (read_memory(m->start, &e, sizeof e) != sizeof e ||
        memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_phentsize != sizeof *p || !e.e_phnum || e.e_phnum > sizeof p / sizeof *p ||
        read_memory(m->start + e.e_phoff, p, e.e_phnum * sizeof *p) != e.e_phnum * sizeof *p)
        return -1;
    for (unsigned i = 0; i < e.e_phnum; i++) {
        if (p[i].p_type == PT_DYNAMIC)
            m->dynamic = p[i].p_vaddr;
        if (p[i].p_type != PT_LOAD)
            continue;
        first = p[i].p_vaddr < first ? p[i].p_vaddr : first;
        last = p[i].p_vaddr + p[i].p_memsz > last ? p[i].p_vaddr + p[i].p_memsz : last;
    }
    if (first > last || !m->dynamic || last - first > UINT64_C(1) << 36)
        return -1;
    m->base = m->start - (first & ~(uint64_t)4095);
    m->end = m->base + last;
    m->dynamic += m->base;
    return 0;
}

// The last one of n modules that does not begin after an address, or NULL.
static const struct module *find_module(const struct module *of, unsigned n, uint64_t address) {
    unsigned low = 0, high = n;
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (of[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &of[low - 1] : NULL;
}

// Takes over what was known of a module that is still there.
static void take_over(struct module *m, const struct module *before, unsigned n) {
    const struct module *const same = find_module(before, n, m->start);
    if (!same || same->start != m->start || same->inode != m->inode || same->device != m->device)
        return;
    m->is_done = same->is_done;
    m->had_unknown = same->had_unknown;
}

struct found {
    struct module *list;
    unsigned count;
    const struct module *before;
    unsigned before_count;
};

static int add_mapping(void *user, const struct ct_mapping *of) {
    struct found *f = user;
    struct module *last = f->count ? &f->list[f->count - 1] : NULL;
    if (last && of->start < last->end && of->inode == last->inode) {
        last->is_executable |= of->is_executable;
        return 0;
    }
    if (of->offset || !f->list || f->count == MODULES)
        return 0;
    struct module m = {.start = of->start,
                       .inode = of->inode,
                       .device = of->device,
                       .is_executable = of->is_executable};
    if (ct_own_image_has((const void *)(uintptr_t)(of->start)) || read_segments(&m))
        return 0;
    ct_print(m.path, sizeof m.path, "%s", ct_base_name(of->path));
    take_over(&m, f->before, f->before_count);
    f->list[f->count++] = m;
    return 0;
}

static const char unknown_path[] = "unknown";

static const char *find_path(uint64_t address) {
    const struct module *const m = find_module(modules, count, address);
    return m && address < m->end ? m->path : unknown_path;
}

// ---- the tables of a module ---------------------------------------------------------------------

struct tables {
    uint64_t symbols, text, text_bytes, hash, gnu_hash;
    uint64_t slots, slot_bytes, relocations, relocation_bytes, relative;
};

static int read_tables(const struct module *m, struct tables *t) {
    static const struct {
        int64_t tag;
        size_t to;
        int is_address;
    } members[] = {
#define TO(member) offsetof(struct tables, member)
        {DT_SYMTAB, TO(symbols), 1},          {DT_STRTAB, TO(text), 1},
        {DT_STRSZ, TO(text_bytes), 0},        {DT_HASH, TO(hash), 1},
        {DT_GNU_HASH, TO(gnu_hash), 1},       {DT_JMPREL, TO(slots), 1},
        {DT_PLTRELSZ, TO(slot_bytes), 0},     {DT_RELA, TO(relocations), 1},
        {DT_RELASZ, TO(relocation_bytes), 0}, {DT_RELACOUNT, TO(relative), 0},
#undef TO
    };
    ElfW(Dyn) d[128];
    const size_t n = read_memory(m->dynamic, d, sizeof d) / sizeof *d;
    *t = (struct tables){0};
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        // The loader has added the base, but not everywhere.
        const uint64_t value = d[i].d_un.d_val, address = value < m->base ? m->base + value : value;
        for (size_t k = 0; k < sizeof members / sizeof *members; k++)
            if (members[k].tag == d[i].d_tag)
                memcpy((char *)t + members[k].to, members[k].is_address ? &address : &value,
                       sizeof value);
    }
    return t->symbols && t->text && t->text_bytes ? 0 : -1;
}

// Undefined symbols are the first ones in a module with a GNU hash, which has the others.
static uint32_t count_undefined(const struct tables *t) {
    uint32_t head[4] = {0};
    if (t->gnu_hash && read_memory(t->gnu_hash, head, sizeof head) == sizeof head)
        return head[1] < SYMBOLS ? head[1] : SYMBOLS;
    if (t->hash && read_memory(t->hash, head, 8) == 8)
        return head[1] < SYMBOLS ? head[1] : SYMBOLS;
    return 0;
}

// ---- hooked names -------------------------------------------------------------------------------

static int is_look_up(const char *name) {
    return !strcmp(name, "dlsym") || !strcmp(name, "dlvsym");
}

static int is_hooked(const char *name) {
    if (memcmp(name, "cu", 2) != 0 && memcmp(name, "_ZN3c10", 7) != 0)
        return 0;
    for (size_t i = 0; i < sizeof hooked_names / sizeof *hooked_names; i++)
        if (!strcmp(hooked_names[i], name))
            return 1;
    return 0;
}

enum kind { OTHER, CALL, LOOK_UP };

// The undefined symbols of a module that this library defines.
static struct {
    uint32_t index[HOOKED];
    uint8_t kind[HOOKED];
    unsigned count;
} hooked;

static void add_symbol(const struct tables *t, const char *texts, uint32_t index, uint32_t name) {
    char own[128];
    const char *at = own;
    if (name >= t->text_bytes || hooked.count == HOOKED)
        return;
    if (texts) {
        at = texts + name;
    } else {
        const size_t n = read_memory(t->text + name, own, sizeof own - 1);
        own[n] = 0;
        if (n < 8)
            return;
    }
    const enum kind kind = is_look_up(at) ? LOOK_UP : is_hooked(at) ? CALL : OTHER;
    if (!kind)
        return;
    hooked.index[hooked.count] = index;
    hooked.kind[hooked.count++] = (uint8_t)kind;
}

// Symbols are read in parts; names at once, if they are not too many.
static void find_hooked(const struct tables *t) {
    static char texts[TEXT_BYTES + 16]; // zeros after the last name
    static ElfW(Sym) part[1024];
    const uint32_t all = count_undefined(t);
    const int at_once = t->text_bytes <= TEXT_BYTES;
    hooked.count = 0;
    if (at_once && all > 1) {
        const size_t n = read_memory(t->text, texts, t->text_bytes);
        memset(texts + n, 0, sizeof texts - n);
    }
    for (uint32_t i = 0; i < all; i += sizeof part / sizeof *part) {
        const uint32_t asked = all - i < 1024 ? all - i : 1024;
        const size_t n =
            read_memory(t->symbols + i * sizeof *part, part, asked * sizeof *part) / sizeof *part;
        for (uint32_t k = 0; k < n; k++)
            if (part[k].st_shndx == SHN_UNDEF && part[k].st_name)
                add_symbol(t, at_once ? texts : NULL, i + k, part[k].st_name);
        if (n < asked)
            return;
    }
}

static enum kind kind_of(uint32_t symbol) {
    unsigned low = 0, high = hooked.count;
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (hooked.index[middle] < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low < hooked.count && hooked.index[low] == symbol ? (enum kind)hooked.kind[low] : OTHER;
}

// ---- slots --------------------------------------------------------------------------------------

// What a module's slots hold.
struct bound {
    unsigned unbound; // not yet, for example until the first call (lazy binding)
    unsigned unknown; // bound to what is no module
    unsigned here, elsewhere;
    struct {
        const char *path;
        unsigned count;
    } targets[TARGETS];
    const char *look_ups; // the module whose dlsym it calls, if that is not ours
};

static void count_target(struct bound *b, const char *path) {
    b->elsewhere++;
    for (unsigned i = 0; i < TARGETS; i++) {
        if (b->targets[i].count && strcmp(b->targets[i].path, path) != 0)
            continue;
        b->targets[i].path = path;
        b->targets[i].count++;
        return;
    }
}

static void look_at_slot(const struct module *m, struct bound *b, const ElfW(Rela) * r) {
    const uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    uint64_t value = 0;
    if (type != R_SLOT && type != R_GLOBAL && type != R_ADDRESS)
        return;
    const enum kind kind = kind_of((uint32_t)ELF64_R_SYM(r->r_info));
    if (kind == OTHER || read_memory(m->base + r->r_offset, &value, sizeof value) != sizeof value)
        return;
    if (type == R_ADDRESS)
        value -= (uint64_t)r->r_addend;
    if (ct_own_image_has((const void *)(uintptr_t)value)) {
        b->here++;
        return;
    }
    // 0: of a module that is being loaded, or a weak symbol without a definition
    if (!value || (value >= m->start && value < m->end)) {
        b->unbound++;
        return;
    }
    const char *const path = find_path(value);
    b->unknown += path == unknown_path;
    if (kind == LOOK_UP)
        b->look_ups = path;
    else
        count_target(b, path);
}

static void look_at_relocations(const struct module *m, struct bound *b, uint64_t at,
                                uint64_t bytes) {
    static ElfW(Rela) part[1024];
    if (bytes > UINT64_C(1) << 30)
        return;
    for (uint64_t done = 0; done < bytes; done += sizeof part) {
        const size_t asked = bytes - done < sizeof part ? (size_t)(bytes - done) : sizeof part;
        const size_t n = read_memory(at + done, part, asked) / sizeof *part;
        for (size_t i = 0; i < n; i++)
            look_at_slot(m, b, &part[i]);
        if (n * sizeof *part < asked / sizeof *part * sizeof *part)
            return;
    }
}

// ---- what is published --------------------------------------------------------------------------

// Whether a module has the name of the driver's resolver in it, as each copy of the runtime has. It
// is asked of the few modules alone whose look-ups are not seen.
static int has_runtime(const struct module *m) {
    static const char name[] = "cuGetProcAddress";
    static char part[64 << 10];
    const uint64_t end = m->end - m->start > SEARCHED_BYTES ? m->start + SEARCHED_BYTES : m->end;
    for (uint64_t at = m->start; at < end; at += sizeof part - sizeof name) {
        const size_t n = read_memory(at, part, sizeof part);
        if (memmem(part, n, name, sizeof name - 1))
            return 1;
    }
    return 0;
}

// Publishes KEY.N, the module, and KEY.N.to.
static void publish_module(struct ct_name_list *list, const char *fact, const char *name,
                           const char *to) {
    const int i = ct_name_list_find(list, name);
    char key[96];
    if (i < 0)
        return;
    ct_print(key, sizeof key, "coverage.%s.%d", fact, i);
    ct_info_set(key, "%s", list->name[i]);
    ct_print(key, sizeof key, "coverage.%s.%d.to", fact, i);
    ct_info_set(key, "%s", to);
}

static void publish(const struct module *m, const struct bound *b) {
    static struct ct_name_list bound_elsewhere, looks_up_elsewhere;
    char to[TARGETS * (PATH_BYTES + 16)] = "";
    for (unsigned i = 0; i < TARGETS && b->targets[i].count; i++) {
        const size_t used = strlen(to);
        ct_print(to + used, sizeof to - used, "%s%s %u", used ? ", " : "", b->targets[i].path,
                 b->targets[i].count);
    }
    if (b->elsewhere)
        publish_module(&bound_elsewhere, "bound_elsewhere", m->path, to);
    if (b->look_ups && has_runtime(m))
        publish_module(&looks_up_elsewhere, "looks_up_elsewhere", m->path, b->look_ups);
}

// The driver's own calls of itself are none of the program's.
static int is_driver(const struct module *m) {
    return !strncmp(m->path, "libcuda.so", sizeof "libcuda.so" - 1);
}

static void look_at(struct module *m) {
    struct tables t;
    struct bound b = {0};
    if (m->is_done || !m->is_executable || is_driver(m))
        return;
    if (read_tables(m, &t)) {
        unreadable++;
        return;
    }
    find_hooked(&t);
    if (hooked.count) {
        look_at_relocations(m, &b, t.slots, t.slot_bytes);
        const uint64_t skipped =
            t.relative * sizeof(ElfW(Rela)); // without a symbol; they come first
        if (t.relocation_bytes > skipped)
            look_at_relocations(m, &b, t.relocations + skipped, t.relocation_bytes - skipped);
        // A module that is being loaded, or that is bound to what was loaded after the list of
        // modules was made, is published at the next look.
        if (!b.unknown || m->had_unknown)
            publish(m, &b);
    }
    m->had_unknown = b.unknown != 0;
    m->is_done = !b.unbound && !b.unknown;
}

void ct_bindings_look(void) {
    static struct module *before; // this and `modules` change places
    struct found f = {.before = modules, .before_count = count};
    if (!before && !(before = ct_pages_map(MODULES * sizeof *before)))
        return;
    if (open_memory())
        return;
    f.list = before;
    if (!ct_maps_read("/proc/self/maps", add_mapping, &f)) {
        before = modules;
        modules = f.list;
        count = f.count;
        unsigned drivers = 0;
        unreadable = 0;
        for (unsigned i = 0; i < count; i++) {
            look_at(&modules[i]);
            drivers += modules[i].is_executable && is_driver(&modules[i]);
        }
        if (count) // else this memory cannot be read like that, and nothing is known
            ct_info_set("coverage.modules", "%u", count);
        ct_info_set("coverage.drivers", "%u", drivers); // more than one: in several namespaces
        if (count == MODULES)
            unreadable++; // there may be more
        // One that is being loaded may be readable at the next look.
        static int was_unreadable;
        was_unreadable |= unreadable != 0;
        if (was_unreadable)
            ct_info_set("coverage.modules_unreadable", "%u", unreadable);
    }
    close_memory();
}
