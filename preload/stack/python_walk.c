// SPDX-License-Identifier: Apache-2.0
// The Python frames of the calling thread.
//
// What makes it safe. A frame that is on the calling thread's own chain, its code object, and that one's strings and
// tables live as long as the hook does: nobody but this thread takes a frame off its chain, and code, strings and
// tables never change. So nothing that is followed here can go away, whoever holds the GIL, with two exceptions:
// - When Python is finalised, the frames of daemon threads are unmapped under them. A function that is registered with
//   atexit runs before that: it closes the gate and waits for the walks that are under way, which say so in their rings.
// - Free-threaded builds move a code object's list of copies. It is read through the kernel, which tells what is not there.
//
// What makes it right. Where things lie depends on the version (python_layout.c), and a layout is believed only when the
// stack of a thread was found to be what it should be, read through the kernel. A code object's address is used again
// for another one when it is gone: frames therefore have a stamp, the version number that each code object gets once (it
// has one since 3.12; it may run out, then it is 0), else a hash of all that is written down of it. Numbers are given
// anew in each interpreter of the process and after each Py_Initialize, so these go into the hash of the stack.
#define _GNU_SOURCE
#include "stack/python_walk.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/print.h"
#include "base/real_dlsym.h"
#include "base/wait.h"
#include "stack/python_layout.h"
#include "store/loaded_modules.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/info_table.h"

// ---- what is asked of the interpreter -----------------------------------------------------------

typedef struct py_object py_object;
typedef void destructor(py_object *capsule);
typedef py_object *method(py_object *self, py_object *arguments);
struct method_definition { // PyMethodDef
    const char *name;
    method *function;
    int flags;
    const char *help;
};
#define NO_ARGUMENTS 4 // METH_NOARGS

// FUNCTION(result, name, parameters), DATA(name)
#define NEEDED(FUNCTION, DATA)                                                                   \
    FUNCTION(void *, PyGILState_GetThisThreadState, (void))                                      \
    FUNCTION(int, Py_IsInitialized, (void))                                                      \
    FUNCTION(const char *, Py_GetVersion, (void))                                                \
    FUNCTION(int, Py_AddPendingCall, (int (*function)(void *), void *argument))                  \
    FUNCTION(void *, PyInterpreterState_Get, (void))                                             \
    FUNCTION(void *, PyInterpreterState_Main, (void))                                            \
    FUNCTION(int64_t, PyInterpreterState_GetID, (void *interpreter))                             \
    FUNCTION(py_object *, PyInterpreterState_GetDict, (void *interpreter))                       \
    FUNCTION(                                                                                    \
        py_object *, PyImport_ImportModuleLevel,                                                 \
        (const char *name, py_object *globals, py_object *locals, py_object *from, int level))   \
    FUNCTION(py_object *, PyObject_GetAttrString, (py_object * of, const char *name))            \
    FUNCTION(py_object *, PyObject_CallFunctionObjArgs, (py_object * function, ...))             \
    FUNCTION(py_object *, PyCFunction_NewEx,                                                     \
             (struct method_definition * definition, py_object * self, py_object * module))      \
    FUNCTION(py_object *, PyCapsule_New, (void *pointer, const char *name, destructor *destroy)) \
    FUNCTION(int, PyDict_SetItemString, (py_object * dict, const char *key, py_object *value))   \
    FUNCTION(void, PyErr_Clear, (void))                                                          \
    FUNCTION(void, Py_IncRef, (py_object *))                                                     \
    FUNCTION(void, Py_DecRef, (py_object *))                                                     \
    DATA(PyCode_Type)                                                                            \
    DATA(PyUnicode_Type)                                                                         \
    DATA(PyBytes_Type)                                                                           \
    DATA(_Py_NoneStruct)

#define DECLARE_FUNCTION(result, name, parameters) result(*name) parameters;
#define DECLARE_DATA(name) py_object *name;
static struct {
    NEEDED(DECLARE_FUNCTION, DECLARE_DATA)
    int (*is_finalizing)(void);
    const void *runtime;        // _PyRuntime
    uintptr_t loop, loop_bytes; // _PyEval_EvalFrameDefault
    const char *path;           // of the shared object; empty: the program
} python;

// ---- state --------------------------------------------------------------------------------------

enum {
    ABSENT,
    UNSAID,  // there is one that cannot be read, and the trace does not say so yet
    REFUSED, // it does
    FOUND,   // its layout is to be tested in a thread with frames
    TESTING,
    READY,
    CLOSED, // atexit: only the thread that finalises walks
    ENDED,  // finalised. It may begin again
};
static _Atomic int state;
static _Atomic int looking;
static const char *why_not; // why frames are not read
static char version_text[32];
static struct ct_python_layout layout;
static uintptr_t main_interpreter;
static uint64_t runs; // how often Python was initialised
static pthread_t closer;
static int end_is_watched, gate_is_registered; // with the GIL

static int change(int from, int to) {
    return atomic_compare_exchange_strong(&state, &from, to);
}

static void refuse(const char *why) {
    why_not = why;
    atomic_store(&state, UNSAID);
}

uint32_t ct_python_take_note(void) {
    if (atomic_load_explicit(&state, memory_order_relaxed) != UNSAID || !change(UNSAID, REFUSED))
        return 0;
    return ct_text("stacks without Python frames: Python %s, %s", version_text, why_not);
}

// ---- looking ------------------------------------------------------------------------------------

// dlsym would leave an error, for which the C library takes memory, in the thread of a program without Python.
static int take_symbols(const struct dl_phdr_info *object) {
    uint64_t bytes;
    int missing = 0;
#define TAKE(name) missing |= !(*(void **)&python.name = ct_object_symbol(object, #name, &bytes));
#define TAKE_FUNCTION(result, name, parameters) TAKE(name)
    NEEDED(TAKE_FUNCTION, TAKE)
    *(void **)&python.is_finalizing = ct_object_symbol(object, "Py_IsFinalizing", &bytes);
    if (!python.is_finalizing) // until 3.12
        *(void **)&python.is_finalizing = ct_object_symbol(object, "_Py_IsFinalizing", &bytes);
    python.runtime = ct_object_symbol(object, "_PyRuntime", &bytes);
    python.loop = (uintptr_t)ct_object_symbol(object, "_PyEval_EvalFrameDefault", &bytes);
    python.loop_bytes = python.loop ? bytes : 0;
    return missing || !python.is_finalizing;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *missing) {
    uint64_t bytes;
    (void)size;
    if (!ct_object_symbol(object, "PyGILState_GetThisThreadState", &bytes))
        return 0;
    *(int *)missing = take_symbols(object);
    python.path = object->dlpi_name;
    return 1;
}

// "3.12.1 (main, ..." as PY_VERSION_HEX has it: major, minor, micro, level and serial.
static uint32_t version_of(const char *text) {
    static const struct {
        char name[3];
        uint8_t level;
    } levels[] = {{"a", 0xA0}, {"b", 0xB0}, {"rc", 0xC0}};
    uint32_t version = 0, number = 0;
    int dots = 0;
    for (; (*text >= '0' && *text <= '9') || *text == '.'; text++) {
        number = *text == '.' ? 0 : number * 10 + (uint32_t)(*text - '0');
        dots += *text == '.';
        version = *text == '.' ? version << 8 : (version & ~UINT32_C(0xFF)) | (number & 0xFF);
    }
    if (dots != 2)
        return 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const size_t n = strlen(levels[i].name);
        if (!strncmp(text, levels[i].name, n))
            return version << 8 | levels[i].level | ((uint32_t)(text[n] - '0') & 0xF);
    }
    return version << 8 | 0xF0;
}

static void look(void) {
    int missing = 0;
    if (!dl_iterate_phdr(look_at, &missing))
        return;
    // Kept open: it stays loaded for as long as its functions are remembered here.
    if (*python.path)
        (void)dlopen(python.path, RTLD_NOLOAD | RTLD_LAZY);
    const char *const text = python.Py_GetVersion ? python.Py_GetVersion() : "?";
    ct_print(version_text, sizeof version_text, "%.*s", (int)strcspn(text, " "), text);
    const char *const why = missing ? "it lacks functions"
                                    : ct_python_layout(&layout, version_of(text), python.runtime);
    if (why)
        refuse(why);
    else
        atomic_store(&state, FOUND);
}

int ct_python_find(void) {
    int nobody = 0, found = -EBUSY;
    if (atomic_load(&state) != ABSENT)
        return ct_python_is_here();
    if (!atomic_compare_exchange_strong(&looking, &nobody, 1))
        return -EBUSY;
    if (!ct_loader_enter()) {
        const int saved = errno;
        if (atomic_load(&state) == ABSENT)
            look();
        errno = saved;
        ct_loader_leave();
        found = ct_python_is_here();
    }
    atomic_store(&looking, 0);
    return found;
}

int ct_python_is_here(void) {
    const int now = atomic_load_explicit(&state, memory_order_relaxed);
    return now != ABSENT && now != REFUSED;
}

int ct_python_is_loop(uintptr_t pc) {
    return pc - python.loop - 1 <
           python.loop_bytes; // what was called there returns behind its call
}

// ---- the gate -----------------------------------------------------------------------------------

static method close_gate;
static struct method_definition close_definition = {"cutrace", close_gate, NO_ARGUMENTS, NULL};

// Whatever a walk has stored before it looked at the state is visible afterwards.
static void fence(void) {
    enum { MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3 };
    const struct timespec pause = {0, 1000000};
    if (syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0))
        nanosleep(&pause, NULL); // no store is under way for so long
}

// Called by atexit, in the thread that finalises, with the GIL, which no walk waits for.
static py_object *close_gate(py_object *self, py_object *arguments) {
    const struct timespec pause = {0, 100000};
    const int saved = errno;
    (void)self;
    (void)arguments;
    closer = pthread_self();
    atomic_store(&state, CLOSED);
    fence();
    // A walk takes microseconds; a thread that a debugger has stopped must not stop this one.
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        for (int i = 0; atomic_load(&r->in_python) && i < 10000; i++)
            nanosleep(&pause, NULL);
    errno = saved;
    python.Py_IncRef(python._Py_NoneStruct);
    return python._Py_NoneStruct;
}

// Interpreters go in the course of finalisation, and this with the main one: after it, Python may be initialised again.
static void main_interpreter_goes(py_object *capsule) {
    (void)capsule;
    end_is_watched = 0;
    runs++;
    if (!change(CLOSED, ENDED))
        (void)change(READY, ENDED);
}

// atexit forgets the gate: because it has been called, or somebody has asked it to forget all (a child process of
// multiprocessing does).
static int close_at_exit(void *unused);
static void gate_is_forgotten(py_object *capsule) {
    (void)capsule;
    if (gate_is_registered && atomic_load(&state) == READY && !python.is_finalizing())
        (void)python.Py_AddPendingCall(close_at_exit, NULL);
    gate_is_registered = 0;
}

static int watch_end(void) {
    py_object *const dict = python.PyInterpreterState_GetDict(python.PyInterpreterState_Main());
    py_object *const capsule =
        dict ? python.PyCapsule_New(&state, "cutrace.end", main_interpreter_goes) : NULL;
    const int rc = capsule ? python.PyDict_SetItemString(dict, "cutrace", capsule) : -1;
    python.Py_DecRef(capsule);
    end_is_watched = !rc;
    return rc;
}

static int register_gate(void) {
    py_object *const atexit = python.PyImport_ImportModuleLevel("atexit", NULL, NULL, NULL, 0);
    py_object *const enter = atexit ? python.PyObject_GetAttrString(atexit, "register") : NULL;
    py_object *const capsule = python.PyCapsule_New(&state, "cutrace.gate", gate_is_forgotten);
    py_object *const gate =
        capsule ? python.PyCFunction_NewEx(&close_definition, capsule, NULL) : NULL;
    gate_is_registered = 0;
    py_object *const done =
        enter && gate ? python.PyObject_CallFunctionObjArgs(enter, gate, (void *)NULL) : NULL;
    python.Py_DecRef(atexit);
    python.Py_DecRef(enter);
    python.Py_DecRef(capsule);
    python.Py_DecRef(gate);
    python.Py_DecRef(done);
    gate_is_registered = done != NULL;
    return done ? 0 : -1;
}

// A pending call: Python makes it in its main thread, with the GIL, and before it calls what is registered with atexit.
static int close_at_exit(void *unused) {
    (void)unused;
    if (python.PyInterpreterState_Get() != python.PyInterpreterState_Main()) {
        (void)change(READY, FOUND); // another one's atexit is not the one: again
    } else if ((!end_is_watched && watch_end()) || register_gate()) {
        python.PyErr_Clear();
        refuse("nothing could be registered with atexit");
    }
    return 0;
}

// ---- walking ------------------------------------------------------------------------------------

static inline uintptr_t innermost(uintptr_t thread, uintptr_t cframe) {
    return ct_python_word_at((layout.current_in_cframe ? cframe : thread) + layout.current);
}

// What is known of code without a version: during a walk nothing of it goes away, so that each function is hashed once.
enum { SEEN = 32 };
struct seen {
    uint32_t frame[SEEN]; // by code: the last frame of it + 1, or of another one
    struct ct_python_file file;
};

static uint64_t content_of(uintptr_t code, struct seen *seen, const struct ct_python_frame *frame,
                           size_t n) {
    uint32_t *at = &seen->frame[(code >> 5 ^ code >> 10) % SEEN];
    const struct ct_python_frame *before = *at ? &frame[*at - 1] : NULL;
    *at = (uint32_t)n + 1;
    return before && before->code == code ? before->stamp
                                          : ct_python_content(&layout, code, &seen->file);
}

// Of what is to become frame[n].
static inline uint64_t stamp_of(uintptr_t code, struct seen *seen,
                                const struct ct_python_frame *frame, size_t n) {
    const uint32_t version = layout.version ? (uint32_t)ct_python_int_at(code + layout.version) : 0;
    if (__builtin_expect(version != 0, 1))
        return (uint64_t)(uint32_t)ct_python_int_at(code + layout.first_line) << 32 | version;
    return content_of(code, seen, frame, n);
}

#define COPY_SHIFT 48 // above all addresses of user space

// Where a list of copies (_PyCodeArray) has the address of this one, behind its length.
static inline uintptr_t copy_entry(uintptr_t copy) {
    return sizeof(intptr_t) * (1 + copy);
}

static inline uintptr_t instruction_of(uintptr_t f, uintptr_t code) {
    const uintptr_t at = f + layout.instruction;
    if (layout.lines != CT_LINES_LOCATIONS)
        return (uintptr_t)(intptr_t)ct_python_int_at(at);
    if (__builtin_expect(layout.copies != 0, 0))
        return ct_python_word_at(at) | (uintptr_t)ct_python_int_at(f + layout.copy) << COPY_SHIFT;
    return ct_python_word_at(at) - code - layout.bytecode;
}

// A frame that has not come to its first line is none for Python either. What is before the first line is short.
static inline int is_incomplete(uintptr_t f, uintptr_t code, uintptr_t instruction) {
    const intptr_t offset = (intptr_t)instruction;
    return layout.traceable && offset < 256 &&
           offset < 2 * ct_python_int_at(code + layout.traceable) &&
           ct_python_byte_at(f + layout.owner) != CT_PYTHON_GENERATOR;
}

// Takes a frame as frame[n], if it is one to be shown. Returns 1, 0, or -1: this is no frame.
static inline int take(uintptr_t f, struct ct_python_frame *frame, size_t n, struct seen *seen) {
    const uintptr_t code = ct_python_word_at(f + layout.code) & ~(uintptr_t)3;
    if (__builtin_expect(
            !code || ct_python_word_at(code + layout.type) != (uintptr_t)python.PyCode_Type, 0))
        return -1;
    const uintptr_t instruction = instruction_of(f, code);
    if (is_incomplete(f, code, instruction))
        return 0;
    frame[n] = (struct ct_python_frame){code, instruction, stamp_of(code, seen, frame, n), 0};
    return 1;
}

// Until 3.10: a generator that waits for another one, into which an exception is thrown. (One that is just resumed looks
// the same to a trace function.)
static inline int is_idle(uintptr_t f) {
    return ct_python_word_at(f + layout.generator) &&
           ct_python_int_at(f + layout.instruction) >= 0 &&
           (layout.executing ? !ct_python_byte_at(f + layout.executing)
                             : ct_python_int_at(f + layout.depth) >= 0);
}

// Where the activation of the loop that this frame is the outermost one of has its stack frame; 0: it is not.
static inline uintptr_t end_of_activation(uintptr_t f, uintptr_t *cframe) {
    const uintptr_t here = *cframe;
    switch (layout.chain) {
    case CT_CHAIN_SHIMS:
        return ct_python_byte_at(f + layout.owner) >= CT_PYTHON_SHIM ? f : 0;
    case CT_CHAIN_PLAIN:
        return is_idle(f) ? 0 : CT_PYTHON_ANYWHERE;
    case CT_CHAIN_CFRAMES:
        if (is_idle(f))
            return 0;
        *cframe = here ? ct_python_word_at(here + layout.cframe_previous) : 0;
        return here ? here : CT_PYTHON_ANYWHERE;
    case CT_CHAIN_CURRENT:
    default:
        break;
    }
    const uintptr_t outer = here ? ct_python_word_at(here + layout.cframe_previous) : 0;
    if (!outer ||
        ct_python_word_at(f + layout.previous) != ct_python_word_at(outer + layout.current))
        return 0;
    *cframe = outer;
    return here;
}

static inline uint64_t mix_frame(uint64_t hash, const struct ct_python_frame *f) {
    const uint64_t k = UINT64_C(0xE7037ED1A0B428DB);
    return ct_stack_mix(hash ^ f->code, f->stamp ^ f->instruction * k ^ k);
}

static size_t walk(uintptr_t thread, struct ct_python_frame *frame, size_t most, uint64_t *hash,
                   int *more) {
    uintptr_t cframe = layout.cframe ? ct_python_word_at(thread + layout.cframe) : 0;
    uintptr_t f = innermost(thread, cframe);
    const uintptr_t interpreter = ct_python_word_at(thread + layout.interp);
    uint64_t h = runs;
    size_t n = 0;
    struct seen seen = {{0}, {0, 0}};
    if (__builtin_expect(interpreter != main_interpreter, 0))
        h ^= (uint64_t)python.PyInterpreterState_GetID((void *)interpreter) << 32;
    for (; f; f = ct_python_word_at(f + layout.previous)) {
        const uintptr_t end = end_of_activation(f, &cframe);
        if (layout.chain != CT_CHAIN_SHIMS || !end) {
            if (n == most) {
                *more = 1;
                break;
            }
            const int taken = take(f, frame, n, &seen);
            if (__builtin_expect(taken < 0, 0))
                break;
            if (taken)
                h = mix_frame(h, &frame[n++]);
        }
        if (end && n && !frame[n - 1].anchor)
            frame[n - 1].anchor = end;
    }
    // 3.9 loses the frames behind an idle generator: it stands for the one that called it.
    if (!*more && n && !frame[n - 1].anchor)
        frame[n - 1].anchor = CT_PYTHON_ANYWHERE;
    *hash = h | !h;
    return n;
}

// ---- a thread with which the layout is tested -----------------------------------------------------

// As in unwind_memory.c: asks the kernel, which changes nothing.
long ct_unw_syscall(long number, int fd, const void *from, size_t n);

static int read_word(uintptr_t address, uintptr_t *value) {
    if (address % sizeof *value || ct_unw_syscall(0, 0, (const void *)address, 1) != 1)
        return -1;
    *value = ct_python_word_at(address);
    return 0;
}

static int is_a(uintptr_t object, const void *type) {
    uintptr_t of;
    return object && !read_word(object + layout.type, &of) && of == (uintptr_t)type;
}

static int has(uintptr_t object, uint16_t at, const void *type) {
    uintptr_t value;
    return !read_word(object + at, &value) && is_a(value, type);
}

static int is_code(uintptr_t code) {
    return is_a(code, python.PyCode_Type) && has(code, layout.filename, python.PyUnicode_Type) &&
           has(code, layout.name, python.PyUnicode_Type) &&
           has(code, layout.linetable, python.PyBytes_Type);
}

// (The word that `owner` is in; a frame is aligned to words.)
static int is_shim(uintptr_t f) {
    uintptr_t word;
    const unsigned shift = layout.owner % 8 * 8;
    return layout.chain == CT_CHAIN_SHIMS && !read_word(f + layout.owner / 8 * 8, &word) &&
           (word >> shift & 0xFF) >= CT_PYTHON_SHIM;
}

// In its own copy of the bytecode, where there are several.
static int is_in_copy(uintptr_t f, uintptr_t code) {
    uintptr_t copies, base, units, at, word;
    if (!layout.copies)
        return 1;
    const unsigned half = layout.copy % 8 * 8;
    if (read_word(f + layout.copy / 8 * 8, &word) || read_word(code + layout.copies, &copies) ||
        read_word(copies + copy_entry((uint32_t)(word >> half)), &base) ||
        read_word(code + layout.bytes_size, &units) || read_word(f + layout.instruction, &at))
        return 0;
    return at - base < 2 * units;
}

// Returns the number of frames that are what they should be, or -1 if one is not.
static int test_frames(uintptr_t thread) {
    uintptr_t f, code, in = thread;
    int frames = 0;
    if (layout.current_in_cframe && read_word(thread + layout.cframe, &in))
        return -1;
    if (read_word(in + layout.current, &f))
        return -1;
    for (int i = 0; f && i < 200; i++) {
        if (!is_shim(f)) {
            if (read_word(f + layout.code, &code) || !is_code(code &= ~(uintptr_t)3) ||
                !is_in_copy(f, code))
                return -1;
            frames++;
        }
        if (read_word(f + layout.previous, &f))
            return -1;
    }
    return frames;
}

static int test_thread(uintptr_t thread) {
    uintptr_t id;
    if (read_word(thread + layout.thread_id, &id) || id != (uintptr_t)pthread_self())
        return -1;
    return test_frames(thread);
}

// Everything is tested, and the gate is on its way to atexit; or not yet. (Had finalisation begun after the first look
// here, the pending call would be late. It is short, and happens once.)
static void begin(void) {
    if (!python.Py_IsInitialized() || python.is_finalizing())
        return;
    const uintptr_t thread = (uintptr_t)python.PyGILState_GetThisThreadState();
    if (!thread || !change(FOUND, TESTING))
        return;
    const int frames = test_thread(thread);
    main_interpreter = (uintptr_t)python.PyInterpreterState_Main();
    if (frames < 0) {
        refuse("its frames are not where they should be");
        return;
    }
    (void)change(TESTING, frames ? READY : FOUND);
    if (frames && python.Py_AddPendingCall(close_at_exit, NULL)) // too many are pending
        (void)change(READY, FOUND);
}

static __attribute__((noinline)) int may_walk(void) {
    const int saved = errno;
    if (atomic_load(&state) == ENDED && python.Py_IsInitialized() && !python.is_finalizing())
        (void)change(ENDED, FOUND);
    if (atomic_load(&state) == FOUND)
        begin();
    (void)ct_wait_while(&state, TESTING);
    errno = saved;
    const int now = atomic_load(&state);
    return now == READY || (now == CLOSED && pthread_equal(closer, pthread_self()));
}

// Whether Python's objects may be looked at until leave.
static inline int enter(struct ct_ring *ring) {
    atomic_store_explicit(&ring->in_python, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); // the other half is in fence()
    return __builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == READY, 1) ||
           may_walk();
}

static inline void leave(struct ct_ring *ring) {
    atomic_store_explicit(&ring->in_python, 0, memory_order_release);
}

size_t ct_python_walk(struct ct_ring *ring, struct ct_python_frame *frame, size_t most,
                      uint64_t *hash, int *more) {
    size_t n = 0;
    *hash = 0;
    *more = 0;
    if (enter(ring)) {
        const uintptr_t thread = (uintptr_t)python.PyGILState_GetThisThreadState();
        n = thread ? walk(thread, frame, most, hash, more) : 0;
    }
    leave(ring);
    return n;
}

// ---- writing down -------------------------------------------------------------------------------

static long offset_of(const struct ct_python_frame *f) {
    uintptr_t copies, base;
    const intptr_t at = (intptr_t)f->instruction;
    if (!layout.copies)
        return layout.lines == CT_LINES_RANGES ? at * 2 : at;
    if (read_word(f->code + layout.copies, &copies) ||
        read_word(copies + copy_entry(f->instruction >> COPY_SHIFT), &base))
        return -1;
    return (long)((f->instruction & ((UINT64_C(1) << COPY_SHIFT) - 1)) - base);
}

uint64_t ct_python_word(struct ct_ring *ring, const struct ct_python_frame *frame) {
    const int saved = errno;
    uint32_t text = 0, line = 0;
    if (enter(ring)) {
        line = ct_python_line(&layout, frame->code, offset_of(frame));
        text = ct_python_text(&layout, frame->code);
    }
    leave(ring);
    errno = saved;
    return text ? ct_frame_word_python(text, line) : 0;
}

void ct_python_info(void) {
    const int now = atomic_load(&state);
    if (now == ABSENT)
        return;
    ct_info_set("python.version", "%s%s", version_text, layout.free_threaded ? " free-threaded" : "");
    if (now == UNSAID || now == REFUSED)
        ct_info_set("python.stacks", "off: %s", why_not);
    else
        ct_info_set("python.stacks", now == FOUND || now == TESTING ? "not yet" : "on");
}

void ct_python_forked(void) {
    atomic_store(&looking, 0);
    (void)change(TESTING, FOUND);
}
