// SPDX-License-Identifier: Apache-2.0
// The gate between walks of Python frames and Python's finalization. See python_gate.h.
//
// It opens when a thread has checked the layout with its own frames, and is closed by a function
// that atexit calls. That is registered with atexit in a pending call, which Python makes in its
// main thread with the GIL. A capsule in the main interpreter's dictionary is destroyed when Python
// is finalized, and tells that it may be initialized again.
#define _GNU_SOURCE
#include "stack/python_gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/membarrier.h"
#include "base/wait.h"
#include "stack/python_find.h"

// ---- the layout -------------------------------------------------------------------------------

// Checks the layout of Python's frames with those of the calling thread: each word on the way must
// be readable, and each object must be of the type that the layout says.

static const struct ct_python_layout *const layout = &ct_python.layout;

static int is_instance(uintptr_t object, const void *type) {
    uintptr_t of;
    return object && !ct_python_probe_word(object + layout->type, &of) && of == (uintptr_t)type;
}

static int has_member(uintptr_t object, uint16_t at, const void *type) {
    uintptr_t value;
    return !ct_python_probe_word(object + at, &value) && is_instance(value, type);
}

static int is_code(uintptr_t code) {
    return is_instance(code, ct_python.PyCode_Type) &&
           has_member(code, layout->filename, ct_python.PyUnicode_Type) &&
           has_member(code, layout->name, ct_python.PyUnicode_Type) &&
           has_member(code, layout->linetable, ct_python.PyBytes_Type);
}

// Probes the whole word that holds `owner`: a frame is aligned to words.
static int is_shim(uintptr_t f) {
    uintptr_t word;
    const unsigned shift = layout->owner % 8 * 8;
    return layout->chain == CT_CHAIN_SHIMS &&
           !ct_python_probe_word(f + layout->owner / 8 * 8, &word) &&
           (word >> shift & 0xFF) >= CT_PYTHON_SHIM;
}

// Whether the instruction lies in the frame's copy of the bytecode, where there are several.
static int is_in_copy(uintptr_t f, uintptr_t code) {
    uintptr_t copies, base, units, at, word;
    if (!layout->copies)
        return 1;
    const unsigned half = layout->copy % 8 * 8;
    if (ct_python_probe_word(f + layout->copy / 8 * 8, &word) ||
        ct_python_probe_word(code + layout->copies, &copies) ||
        ct_python_probe_word(copies + ct_python_copy_entry((uint32_t)(word >> half)), &base) ||
        ct_python_probe_word(code + layout->bytes_size, &units) ||
        ct_python_probe_word(f + layout->instruction, &at))
        return 0;
    return at - base < 2 * units;
}

static int count_frames(uintptr_t thread) {
    uintptr_t f, code, in = thread;
    int frames = 0;
    if (layout->current_in_cframe && ct_python_probe_word(thread + layout->cframe, &in))
        return -1;
    if (ct_python_probe_word(in + layout->current, &f))
        return -1;
    for (int i = 0; f && i < 200; i++) {
        if (!is_shim(f)) {
            if (ct_python_probe_word(f + layout->code, &code) || !is_code(code &= ~(uintptr_t)3) ||
                !is_in_copy(f, code))
                return -1;
            frames++;
        }
        if (ct_python_probe_word(f + layout->previous, &f))
            return -1;
    }
    return frames;
}

// `thread` is the PyThreadState of the calling thread. Reads through the kernel only. Returns the
// number of its frames, or -1 if one of them is not what it should be.
static int check_thread(uintptr_t thread) {
    uintptr_t id;
    if (ct_python_probe_word(thread + layout->thread_id, &id) || id != (uintptr_t)pthread_self())
        return -1;
    return count_frames(thread);
}

// ---- the gate ---------------------------------------------------------------------------------

uintptr_t ct_python_main_interpreter;
uint64_t ct_python_runs;

static pthread_t closer; // the thread that finalizes Python
// Both are read and written with the GIL only.
static int end_is_watched, gate_is_registered;

// ---- closing ------------------------------------------------------------------------------------

static ct_py_method close_gate;
static struct ct_py_method_definition close_definition = {"cutrace", close_gate, CT_PY_NO_ARGUMENTS,
                                                          NULL};

// The closing thread's part of G2.
static void fence_all_threads(void) {
    const struct timespec pause = {0, 1000000};
    if (ct_membarrier_all_threads())
        nanosleep(&pause, NULL); // no store takes that long to become visible
}

// atexit calls it in the thread that finalizes Python, with the GIL. No walk waits for the GIL.
static ct_py_object *close_gate(ct_py_object *self, ct_py_object *arguments) {
    const struct timespec pause = {0, 100000};
    const int saved = errno;
    (void)self;
    (void)arguments;
    closer = pthread_self();
    atomic_store(&ct_python_state, CT_PYTHON_CLOSED);
    fence_all_threads();
    // A walk takes microseconds. The wait is bounded: a thread that a debugger has stopped must not
    // stop this one.
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        for (int i = 0; atomic_load(&r->in_python) && i < 10000; i++)
            nanosleep(&pause, NULL);
    errno = saved;
    ct_python.Py_IncRef(ct_python._Py_NoneStruct);
    return ct_python._Py_NoneStruct;
}

// Destructor of the capsule in the main interpreter's dictionary. Finalization destroys the
// interpreters.
static void on_main_interpreter_end(ct_py_object *capsule) {
    (void)capsule;
    end_is_watched = 0;
    ct_python_runs++;
    if (!ct_python_change_state(CT_PYTHON_CLOSED, CT_PYTHON_ENDED))
        (void)ct_python_change_state(CT_PYTHON_READY, CT_PYTHON_ENDED);
}

// ---- registering --------------------------------------------------------------------------------

static int register_with_python(void *unused);

// Destructor of the capsule of close_gate: atexit has dropped the function, because it was called,
// or because somebody has cleared atexit (a child process of multiprocessing does). In the second
// case it is registered again.
static void on_gate_forgotten(ct_py_object *capsule) {
    (void)capsule;
    if (gate_is_registered && atomic_load(&ct_python_state) == CT_PYTHON_READY &&
        !ct_python.is_finalizing())
        (void)ct_python.Py_AddPendingCall(register_with_python, NULL);
    gate_is_registered = 0;
}

static int watch_end(void) {
    ct_py_object *const dict =
        ct_python.PyInterpreterState_GetDict(ct_python.PyInterpreterState_Main());
    ct_py_object *capsule = NULL;
    int rc = -1;
    if (dict)
        capsule = ct_python.PyCapsule_New(&ct_python_state, "cutrace.end", on_main_interpreter_end);
    if (capsule)
        rc = ct_python.PyDict_SetItemString(dict, "cutrace", capsule);
    ct_python.Py_DecRef(capsule);
    end_is_watched = !rc;
    return rc;
}

// atexit.register(close_gate)
static int register_gate(void) {
    ct_py_object *const atexit =
        ct_python.PyImport_ImportModuleLevel("atexit", NULL, NULL, NULL, 0);
    ct_py_object *const enter =
        atexit ? ct_python.PyObject_GetAttrString(atexit, "register") : NULL;
    ct_py_object *const capsule =
        ct_python.PyCapsule_New(&ct_python_state, "cutrace.gate", on_gate_forgotten);
    ct_py_object *const gate =
        capsule ? ct_python.PyCFunction_NewEx(&close_definition, capsule, NULL) : NULL;
    ct_py_object *done = NULL;
    gate_is_registered = 0;
    if (enter && gate)
        done = ct_python.PyObject_CallFunctionObjArgs(enter, gate, (void *)NULL);
    ct_python.Py_DecRef(atexit);
    ct_python.Py_DecRef(enter);
    ct_python.Py_DecRef(capsule);
    ct_python.Py_DecRef(gate);
    ct_python.Py_DecRef(done);
    gate_is_registered = done != NULL;
    return done ? 0 : -1;
}

// A pending call. Python makes it in its main thread, with the GIL, and before it calls the
// functions of atexit.
static int register_with_python(void *unused) {
    (void)unused;
    if (ct_python.PyInterpreterState_Get() != ct_python.PyInterpreterState_Main()) {
        // Each interpreter has its own atexit, and only that of the main one is called at the end:
        // try again.
        (void)ct_python_change_state(CT_PYTHON_READY, CT_PYTHON_FOUND);
    } else if ((!end_is_watched && watch_end()) || register_gate()) {
        ct_python.PyErr_Clear();
        ct_python_give_up("nothing could be registered with atexit");
    }
    return 0;
}

// ---- opening ------------------------------------------------------------------------------------

// Checks the layout with the calling thread's frames, and opens the gate if it has some. (If
// finalization begins after the first lines here, the pending call comes too late. That window is
// short and opens once.)
static void open_gate(void) {
    if (!ct_python.Py_IsInitialized() || ct_python.is_finalizing())
        return;
    const uintptr_t thread = (uintptr_t)ct_python.PyGILState_GetThisThreadState();
    if (!thread || !ct_python_change_state(CT_PYTHON_FOUND, CT_PYTHON_CHECKING))
        return;
    const int frames = check_thread(thread);
    ct_python_main_interpreter = (uintptr_t)ct_python.PyInterpreterState_Main();
    if (frames < 0) {
        ct_python_give_up("its frames are not where they should be");
        return;
    }
    (void)ct_python_change_state(CT_PYTHON_CHECKING, frames ? CT_PYTHON_READY : CT_PYTHON_FOUND);
    if (frames && ct_python.Py_AddPendingCall(register_with_python, NULL)) // too many are pending
        (void)ct_python_change_state(CT_PYTHON_READY, CT_PYTHON_FOUND);
}

__attribute__((noinline)) int ct_python_gate_enter_slow(void) {
    const int saved = errno;
    if (atomic_load(&ct_python_state) == CT_PYTHON_ENDED && ct_python.Py_IsInitialized() &&
        !ct_python.is_finalizing())
        (void)ct_python_change_state(CT_PYTHON_ENDED, CT_PYTHON_FOUND);
    if (atomic_load(&ct_python_state) == CT_PYTHON_FOUND)
        open_gate();
    (void)ct_wait_while(&ct_python_state, CT_PYTHON_CHECKING);
    errno = saved;
    const int now = atomic_load(&ct_python_state);
    return now == CT_PYTHON_READY ||
           (now == CT_PYTHON_CLOSED && pthread_equal(closer, pthread_self())); // G3
}
