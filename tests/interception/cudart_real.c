// SPDX-License-Identifier: Apache-2.0
// The runtime's first calls, with NVIDIA's own runtime.
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void) {
    void *p = NULL;
    int n = -1;
    cudaError_t r = cudaMalloc(&p, 4096);
    printf("cudaMalloc %s %p\n", cudaGetErrorName(r), p);
    printf("cudaFree %s\n", cudaGetErrorName(cudaFree(p)));
    r = cudaGetDeviceCount(&n);
    printf("cudaGetDeviceCount %s\n", cudaGetErrorName(r));
    r = cudaMallocAsync(&p, 4096, NULL);
    printf("cudaMallocAsync %s\n", cudaGetErrorName(r));
    r = cudaHostAlloc(&p, 4096, 0);
    printf("cudaHostAlloc %s\n", cudaGetErrorName(r));
    r = cudaDeviceReset();
    printf("cudaDeviceReset %s\n", cudaGetErrorName(r));
    printf("cudaGetLastError %s\n", cudaGetErrorName(cudaGetLastError()));
    return 0;
}
