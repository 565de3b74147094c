// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share: by IPC handle and by a VMM object's file descriptor.
#define _GNU_SOURCE
#include "cu.h"

#include <sys/wait.h>
#include <unistd.h>

#define NUMBER(fd) (void *)(intptr_t)(fd)

// What the recorder asks about an import must not end a capture of the program's.
static int import_in_capture(int fd) {
    CUmemGenericAllocationHandle h = 0;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    const int bad = T(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING) ||
                    T(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ||
                    T(cuMemImportFromShareableHandle, &h, NUMBER(fd),
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
                    T(cuMemRelease, h) || T(cuStreamEndCapture, stream, &graph);
    return bad || T(cuGraphDestroy, graph) || T(cuStreamDestroy_v2, stream);
}

static int child(char **argv) {
    CUipcMemHandle ipc;
    CUdeviceptr p = 0;
    start(atoi(argv[3]));
    if (read(atoi(argv[1]), &ipc, sizeof ipc) != (ssize_t)sizeof ipc)
        return 1;
    const int bad = T(cuIpcOpenMemHandle_v2, &p, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
                    T(cuIpcCloseMemHandle, p) ||
                    T(cuIpcOpenMemHandle, &p, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
                    T(cuIpcCloseMemHandle, p);
    return bad || import_in_capture(atoi(argv[2]));
}

// argv[1]: the device that the second process uses, 0 if it is not given. The memory is on device
// 0.
int main(int argc, char **argv) {
    if (argc > 3)
        return child(argv);
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle h = 0;
    CUipcMemHandle ipc;
    int fd = -1, ends[2], status = 1;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    start(0);
    const CUdeviceptr p = take(4 * MIB);
    T(cuIpcGetMemHandle, &ipc, p);
    T(cuMemCreate, &h, 2 * MIB, &prop, 0);
    T(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (fd < 0 || pipe(ends))
        return 1;
    char in[16], shared[16];
    const int copy = dup(fd); // without close-on-exec
    snprintf(in, sizeof in, "%d", ends[0]);
    snprintf(shared, sizeof shared, "%d", copy);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], in, shared, argc > 1 ? argv[1] : "0", (char *)NULL);
        _exit(127);
    }
    if (write(ends[1], &ipc, sizeof ipc) != (ssize_t)sizeof ipc || waitpid(pid, &status, 0) != pid)
        return 1;
    T(cuMemFree_v2, p);
    return status != 0;
}
