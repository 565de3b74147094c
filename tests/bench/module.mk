# SPDX-License-Identifier: Apache-2.0
# Measurements (`make bench`): scripts that print lines for people. Each section adds its programs to BENCH_PROGRAMS.

MAKE_TRACE := $(BUILD)/tests/bench/make_trace
BENCHES += tests/bench/speed.py tests/bench/page.py
BENCH_PROGRAMS += $(MAKE_TRACE)

$(MAKE_TRACE): tests/bench/make_trace.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Itools -Itools/report $< $(LDFLAGS_ALL) $(ZSTD_LIBS) -lm -o $@

# ---------------------------------------------------------------- the writer, after the rings
# (with optimisation at link time, as libcutrace.so)
DRAIN_COST := $(BUILD)/tests/bench/drain_cost
BENCHES += tests/bench/drain_cost.sh
BENCH_PROGRAMS += $(DRAIN_COST) $(DRAIN_COST)_plain
DRAIN_COST_NEEDS := tests/bench/drain_cost.c $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)
COMPILE_WRITER = $(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) $(PRELOAD_LTO) $(DEPFLAGS) -Ipreload
LINK_DRAIN_COST = $(COMPILE_WRITER) $(filter %.c %.o,$^) $(filter %.a,$^) $(filter-out -fno-lto,$(LDFLAGS_ALL)) \
    $(PRELOAD_LTO_LINK) -Wl,--wrap=ct_writer_thread_start -lm -o $@

$(DRAIN_COST): $(DRAIN_COST_NEEDS) $(PRELOAD_RECORDING_OBJS)
	@mkdir -p $(@D)
	$(LINK_DRAIN_COST)

# The same recorder without digests.
$(DRAIN_COST)_plain: $(DRAIN_COST_NEEDS) $(filter-out %/live_state.o,$(PRELOAD_RECORDING_OBJS)) \
    $(BUILD)/tests/bench/live_state_plain.o
	@mkdir -p $(@D)
	$(LINK_DRAIN_COST)
$(BUILD)/tests/bench/live_state_plain.o: preload/write/live_state.c tests/bench/no_digest.h
	@mkdir -p $(@D)
	$(COMPILE_WRITER) -include tests/bench/no_digest.h -c $< -o $@

# ---------------------------------------------------------------- names of functions
SYMBOLS_BENCH := $(BUILD)/tests/bench/symbols
BENCHES += tests/bench/symbols.py
BENCH_PROGRAMS += $(SYMBOLS_BENCH)

$(SYMBOLS_BENCH): tests/bench/symbols.c $(PRELOAD_RECORDING_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -Ipreload $(filter %.c %.o %.a,$^) $(LDFLAGS_ALL) -o $@

# ---------------------------------------------------------------- frames of Python
PYTHON_WALK := $(BUILD)/tests/bench/libpython_walk.so
BENCHES += tests/bench/python.sh
BENCH_PROGRAMS += $(PYTHON_WALK)

# (with optimisation at link time, as libcutrace.so)
$(PYTHON_WALK): tests/bench/python_walk.c $(PRELOAD_RECORDING_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) $(PRELOAD_LTO) $(DEPFLAGS) -Ipreload -shared -o $@ $(filter %.c %.o %.a,$^) \
	    $(filter-out -fno-lto,$(LDFLAGS_ALL)) $(PRELOAD_LTO_LINK) -Wl,--exclude-libs,ALL -ldl

# ---------------------------------------------------------------- blocks of PyTorch's allocator
BLOCKS_REPORT := $(BUILD)/tests/bench/libblocks_report.so
BENCHES += tests/bench/blocks.py
BENCH_PROGRAMS += $(BLOCKS_REPORT)

$(BLOCKS_REPORT): tests/bench/blocks_report.c $(BUILD)/tests/torch/blocks/first/libc10.so
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -fPIC -shared -o $@ $(filter-out %.h,$^) $(filter-out -fno-lto,$(LDFLAGS_ALL)) '-Wl,-rpath,$$ORIGIN/../torch/blocks/first'

# ---------------------------------------------------------------- against heaptrack, on the same work
BENCH := $(BUILD)/tests/bench
PEER_PROGRAMS := $(BENCH)/peer_work $(BENCH)/peer_start $(BENCH)/libempty.so $(BENCH)/launches
BENCHES += tests/bench/peer.py tests/bench/launches.py
BENCH_PROGRAMS += $(PEER_PROGRAMS)
# Like programs that avoid overhead: without frame pointers.
PEER_CFLAGS = $(CFLAGS_ALL) $(CUDA_CFLAGS) $(DEPFLAGS) -fomit-frame-pointer

$(BENCH)/stub/libcuda.so.1: tests/bench/stub_driver.c
	@mkdir -p $(@D)
	$(CC) $(PEER_CFLAGS) -MF $(BENCH)/stub_driver.d -fPIC -fvisibility=hidden $(LDFLAGS_ALL) -shared \
	    -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic $< -o $@
$(BENCH)/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(PEER_CFLAGS) -c $< -o $@
# (Their own stub, whatever LD_LIBRARY_PATH says: a machine with a GPU may name its driver there.)
STUB_RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/stub'
$(BENCH)/peer_work: $(BENCH)/peer_work.o $(BENCH)/peer_path.o $(BENCH)/stub/libcuda.so.1
	$(CC) $(LDFLAGS_ALL) $(STUB_RPATH) $^ -o $@
$(BENCH)/launches: $(BENCH)/launches.o $(BENCH)/stub/libcuda.so.1
	$(CC) $(LDFLAGS_ALL) $(STUB_RPATH) $^ -o $@ -ldl
$(BENCH)/peer_start: $(BENCH)/peer_start.o
	$(CC) $(LDFLAGS_ALL) $^ -o $@
# The cost of any preload: an empty library.
$(BENCH)/libempty.so: tests/bench/module.mk
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -shared -x c /dev/null -o $@

# ---------------------------------------------------------------- cutrace watch
BENCHES += tests/bench/watch.py

# ---------------------------------------------------------------- the CUPTI backend beside preload
ifneq ($(CUPTI_INC),)
BENCHES += tests/bench/cupti.py
BENCH_PROGRAMS += $(BENCH)/cupti
$(BENCH)/cupti: tests/bench/cupti.c $(BUILD)/sim/libcuda.so.1 $(BUILD)/sim/cupti/libcupti.so.13
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_CFLAGS) $(CUPTI_CFLAGS) $(DEPFLAGS) $(LDFLAGS_ALL) -o $@ $(filter-out %.h,$^) -ldl
endif

# ---------------------------------------------------------------- only what is shipped is measured
TESTS_native += $(BENCH)/peer_work # (of a suite, too)
ifeq ($(KIND),native)
bench-programs: $(BENCH_PROGRAMS) # (CI builds them, so that they keep compiling)
bench: bench-programs
else
BENCHES :=
endif

-include $(wildcard $(BENCH)/*.d)
