// SPDX-License-Identifier: Apache-2.0
// Loads the code in files: loads_modules FILE... A word `-` unloads the module before it.
#include "cu.h"

static void *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *bytes = calloc(1, 16 * MIB); // (a file may say that it is longer than it is)
    if (!f || !bytes || !fread(bytes, 1, 16 * MIB - 1, f))
        exit(77);
    fclose(f);
    return bytes;
}

int main(int argc, char **argv) {
    CUmodule module = NULL;
    start(0);
    take(MIB);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-"))
            printf("unload %d\n", CU(cuModuleUnload)(module));
        else
            printf("load %d\n", CU(cuModuleLoadData)(&module, read_file(argv[i])));
    }
    return 0;
}
