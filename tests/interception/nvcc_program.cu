// SPDX-License-Identifier: Apache-2.0
// What nvcc makes of a program: registration of its kernels, the runtime, a launch.
#include <cstdio>

__device__ int counter;
__global__ void touch(int *p)
{
    p[threadIdx.x] = ++counter;
}

int main()
{
    int *p = nullptr, *q = nullptr;
    std::printf("%d\n", (int)cudaMalloc(&p, 3 << 20));
    touch<<<1, 32>>>(p);
    std::printf("%d\n", (int)cudaDeviceSynchronize());
    std::printf("%d\n", (int)cudaMallocAsync(&q, 4 << 20, 0));
    std::printf("%d\n", (int)cudaFreeAsync(q, 0));
    std::printf("%d\n", (int)cudaMalloc(&q, 1ull << 50));
    std::printf("%d\n", (int)cudaFree(p));
    return cudaMalloc(&p, 5 << 20);
}
