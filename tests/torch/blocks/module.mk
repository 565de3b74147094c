# SPDX-License-Identifier: Apache-2.0
# Stand-ins for libc10.so and libc10_cuda.so of PyTorch, and a program that uses them.

BLOCKS := $(BUILD)/tests/torch/blocks
CXX ?= g++
BLOCKS_CXXFLAGS = -std=c++17 -O2 -g -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -pthread -fvisibility=hidden \
    $(CUDA_CFLAGS) $(DEPFLAGS)
# The second pair is for a process with two allocators: its library has another name, so that the loader does not
# take it for the first.
BLOCKS_PROGRAMS := first/libc10_cuda.so second/libc10_cuda.so uses_allocator libconstructor.so

TESTS_native += $(BLOCKS_PROGRAMS:%=$(BLOCKS)/%)

$(BLOCKS)/first/libc10.so $(BLOCKS)/second/libc10_b.so: tests/torch/blocks/c10.cpp
	@mkdir -p $(@D)
	$(CXX) $(BLOCKS_CXXFLAGS) -shared -fPIC -Wl,-soname,$(@F) -o $@ $<
$(BLOCKS)/first/libc10_cuda.so: $(BLOCKS)/first/libc10.so
$(BLOCKS)/second/libc10_cuda.so: $(BLOCKS)/second/libc10_b.so
$(BLOCKS)/first/libc10_cuda.so $(BLOCKS)/second/libc10_cuda.so: tests/torch/blocks/c10_cuda.cpp $(BUILD)/sim/libcudart.so.13
	$(CXX) $(BLOCKS_CXXFLAGS) -shared -fPIC -Wl,-soname,libc10_cuda.so '-Wl,-rpath,$$ORIGIN' -o $@ $< \
	    $(filter %.so,$^) $(BUILD)/sim/libcudart.so.13
$(BLOCKS)/uses_allocator: tests/torch/blocks/uses_allocator.cpp
	@mkdir -p $(@D)
	$(CXX) $(BLOCKS_CXXFLAGS) -o $@ $< -ldl
$(BLOCKS)/libconstructor.so: tests/torch/blocks/libconstructor.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -shared -fPIC -o $@ $<

-include $(wildcard $(BLOCKS)/*.d $(BLOCKS)/*/*.d)
