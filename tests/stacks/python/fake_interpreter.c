// SPDX-License-Identifier: Apache-2.0
// A library that looks like an interpreter and is none: its version is FAKE_VERSION, and its frames
// lead nowhere.
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static const uintptr_t garbage[512] = {[0 ... 511] = 0x10};

EXPORT void *PyGILState_GetThisThreadState(void);
EXPORT void *PyGILState_GetThisThreadState(void) {
    return (void *)garbage;
}

#ifndef FAKE_LITTLE
EXPORT const char *Py_GetVersion(void);
EXPORT const char *Py_GetVersion(void) {
    const char *version = getenv("FAKE_VERSION");
    return version ? version : "";
}

EXPORT int Py_IsInitialized(void);
EXPORT int Py_IsInitialized(void) {
    return 1;
}

EXPORT int Py_IsFinalizing(void);
EXPORT int Py_IsFinalizing(void) {
    return 0;
}

EXPORT void *PyInterpreterState_Main(void);
EXPORT void *PyInterpreterState_Main(void) {
    return (void *)garbage;
}

// Nothing else may be called.
#define NEVER(name)          \
    EXPORT void name(void);  \
    EXPORT void name(void) { \
        abort();             \
    }
NEVER(Py_AddPendingCall)
NEVER(PyInterpreterState_Get)
NEVER(PyInterpreterState_GetID)
NEVER(PyInterpreterState_GetDict)
NEVER(PyImport_ImportModuleLevel)
NEVER(PyObject_GetAttrString)
NEVER(PyObject_CallFunctionObjArgs)
NEVER(PyCFunction_NewEx)
NEVER(PyCapsule_New)
NEVER(PyDict_SetItemString)
NEVER(PyErr_Clear)
NEVER(Py_IncRef)
NEVER(Py_DecRef)

EXPORT char PyCode_Type[8], PyUnicode_Type[8], PyBytes_Type[8], _Py_NoneStruct[8];
#endif
