// SPDX-License-Identifier: Apache-2.0
// Finding the Python interpreter of the process: its functions, its version, and the layout of its
// frames.
#ifndef CT_PYTHON_FIND_H
#define CT_PYTHON_FIND_H

#include <stdatomic.h>
#include <stdint.h>

#include "stack/python_layout.h"

// ---- what is asked of the interpreter -----------------------------------------------------------

// PyObject, PyCapsule_Destructor, PyCFunction, PyMethodDef
typedef struct ct_py_object ct_py_object;
typedef void ct_py_destructor(ct_py_object *capsule);
typedef ct_py_object *ct_py_method(ct_py_object *self, ct_py_object *arguments);
struct ct_py_method_definition {
    const char *name;
    ct_py_method *function;
    int flags;
    const char *help;
};
#define CT_PY_NO_ARGUMENTS 4 // METH_NOARGS

// FUNCTION(result, name, parameters), DATA(name)
#define CT_PYTHON_SYMBOLS(FUNCTION, DATA)                                                          \
    FUNCTION(void *, PyGILState_GetThisThreadState, (void))                                        \
    FUNCTION(int, Py_IsInitialized, (void))                                                        \
    FUNCTION(const char *, Py_GetVersion, (void))                                                  \
    FUNCTION(int, Py_AddPendingCall, (int (*function)(void *), void *argument))                    \
    FUNCTION(void *, PyInterpreterState_Get, (void))                                               \
    FUNCTION(void *, PyInterpreterState_Main, (void))                                              \
    FUNCTION(int64_t, PyInterpreterState_GetID, (void *interpreter))                               \
    FUNCTION(ct_py_object *, PyInterpreterState_GetDict, (void *interpreter))                      \
    FUNCTION(ct_py_object *, PyImport_ImportModuleLevel,                                           \
             (const char *name, ct_py_object *globals, ct_py_object *locals, ct_py_object *from,   \
              int level))                                                                          \
    FUNCTION(ct_py_object *, PyObject_GetAttrString, (ct_py_object * of, const char *name))        \
    FUNCTION(ct_py_object *, PyObject_CallFunctionObjArgs, (ct_py_object * function, ...))         \
    FUNCTION(                                                                                      \
        ct_py_object *, PyCFunction_NewEx,                                                         \
        (struct ct_py_method_definition * definition, ct_py_object * self, ct_py_object * module)) \
    FUNCTION(ct_py_object *, PyCapsule_New,                                                        \
             (void *pointer, const char *name, ct_py_destructor *destroy))                         \
    FUNCTION(int, PyDict_SetItemString,                                                            \
             (ct_py_object * dict, const char *key, ct_py_object *value))                          \
    FUNCTION(void, PyErr_Clear, (void))                                                            \
    FUNCTION(void, Py_IncRef, (ct_py_object *))                                                    \
    FUNCTION(void, Py_DecRef, (ct_py_object *))                                                    \
    DATA(PyCode_Type)                                                                              \
    DATA(PyUnicode_Type)                                                                           \
    DATA(PyBytes_Type)                                                                             \
    DATA(_Py_NoneStruct)

// What was found. Constant once the state is CT_PYTHON_FOUND. `runtime` is _PyRuntime or NULL;
// `loop` is where _PyEval_EvalFrameDefault begins; `path` names the shared object, and is empty for
// the program itself.
struct ct_python {
#define CT_PYTHON_DECLARE_FUNCTION(result, name, parameters) result(*name) parameters;
#define CT_PYTHON_DECLARE_DATA(name) ct_py_object *name;
    CT_PYTHON_SYMBOLS(CT_PYTHON_DECLARE_FUNCTION, CT_PYTHON_DECLARE_DATA)
#undef CT_PYTHON_DECLARE_FUNCTION
#undef CT_PYTHON_DECLARE_DATA
    int (*is_finalizing)(void);
    const void *runtime;
    uintptr_t loop, loop_bytes;
    const char *path;
    struct ct_python_layout layout;
};
// (The attribute spares each reader a load from the global offset table.)
extern __attribute__((visibility("hidden"))) struct ct_python ct_python;

// ---- state --------------------------------------------------------------------------------------

enum {
    CT_PYTHON_ABSENT,
    CT_PYTHON_UNREADABLE, // its frames cannot be read, and the trace does not say so yet
    CT_PYTHON_REPORTED,   // the trace says so
    CT_PYTHON_FOUND,      // its layout is to be checked in a thread that has frames
    CT_PYTHON_CHECKING,   // a thread does that
    CT_PYTHON_READY,
    CT_PYTHON_CLOSED, // atexit: only the thread that finalizes Python walks its frames
    CT_PYTHON_ENDED,  // Python was finalized; it may be initialized again
};
extern __attribute__((visibility("hidden"))) _Atomic int ct_python_state;

static inline int ct_python_change_state(int from, int to) {
    return atomic_compare_exchange_strong(&ct_python_state, &from, to);
}

// The frames cannot be read: `why` is for the user.
void ct_python_give_up(const char *why);

// ---- finding ------------------------------------------------------------------------------------

// Looks for an interpreter in the process and learns its layout. Takes the loader's lock: called
// where the recorder starts, and in the writer thread when objects were loaded. Returns what
// ct_python_is_found says afterwards, or -EBUSY if nobody can look now, because another thread does
// or a fork is being prepared.
int ct_python_find(void);

// Whether there is something to walk: one load.
int ct_python_is_found(void);

// Whether a native return address lies in the interpreter's evaluation loop, for versions without
// anchors (python_walk.h).
int ct_python_is_eval_loop(uintptr_t pc);

// The text (ct_text) that says why Python frames are not read, once; then 0. The writer thread
// records it as a note.
uint32_t ct_python_take_note(void);

// Publishes what was found as INFO. The writer calls it.
void ct_python_publish_info(void);

// A forked child, where only the calling thread runs.
void ct_python_reinit_child(void);

#endif
