# SPDX-License-Identifier: Apache-2.0
# Programs that reach the driver in every way, and libraries that are preloaded beside libcutrace.so.

WAYS := $(BUILD)/tests/interception
CXX ?= g++
WAYS_CFLAGS = $(filter-out -Iinclude,$(CFLAGS_ALL)) $(CUDA_CFLAGS) $(DEPFLAGS)
WAYS_CXXFLAGS = -O2 -g -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -pthread $(DEPFLAGS)
WAYS_SHARED = $(LDFLAGS_ALL) -shared -fPIC
WAYS_LIBCUDA := $(BUILD)/sim/libcuda.so.1

# Programs of one source that are linked to the driver, and those that open it themselves.
WAYS_LINKED := ipc errno_and_dlerror chdir_after_init counts_threads random_calls periodic_sizes frees_at_exit annotates loads_modules
WAYS_LOADED := lookups_only
WAYS_ALONE := runtime_by_dlsym absent_driver fills_function_pointers host_of_plugins starts_child reopens_driver watch_files get_proc_address_abis
WAYS_LIBRARIES := libresolver_spy liblike_tms liblike_hami liblike_malloc libforwarder libfunction_pointers librtld_next_O0 librtld_next_O2 libearly_allocation libinjected_tool libslow_load libslow_open libcalls_back

WAYS_RUNTIME := runtime runtime_static libplugin12.so libplugin13.so libplugin_static.so
WAYS_NVCC := $(firstword $(wildcard $(CUDA_INC)/../bin/nvcc $(CUDA_HOME)/bin/nvcc))
WAYS_RUNTIME += $(if $(WAYS_NVCC),nvcc_shared nvcc_static)

# NVIDIA's own runtime, if the toolkit is installed.
WAYS_CUDART := $(firstword $(foreach d,$(CUDA_INC)/../lib64 $(CUDA_INC)/../lib,$(if $(wildcard $(d)/libcudart.so \
    $(d)/libcudart_static.a),$(d))))
WAYS_RUNTIME += $(if $(WAYS_CUDART),cudart_shared cudart_static)

# A second subscriber at the stand-in for CUPTI.
WAYS_CUPTI := $(if $(CUPTI_INC),profiler)

WAYS_PROGRAMS := $(WAYS_CUPTI) host leaves_calls signal_storm driver_asan memory_saver driver driver_elf driver_entry versioned/libcuda.so.1 $(WAYS_RUNTIME) $(WAYS_LINKED) $(WAYS_LOADED) $(WAYS_ALONE) $(WAYS_LIBRARIES:%=%.so)

TESTS_native += $(WAYS_PROGRAMS:%=$(WAYS)/%)

# As users compile it: with the public header, and with no others of the tree.
$(WAYS)/elf_annotates.o: WAYS_CFLAGS += -Iinclude
$(WAYS)/elf_%.o: tests/interception/%.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -DWAYS_ELF -c $< -o $@
$(WAYS)/%.o: tests/interception/%.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -c $< -o $@

$(WAYS)/driver: $(WAYS)/driver.o $(WAYS)/load.o $(WAYS)/scenarios.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl
$(WAYS)/driver_elf: $(WAYS)/elf_driver.o $(WAYS)/elf_scenarios.o $(WAYS_LIBCUDA)
	$(CC) $(LDFLAGS_ALL) -o $@ $^
$(WAYS)/host: $(patsubst tests/interception/%.c,$(WAYS)/elf_%.o,$(filter-out %/host_of_plugins.c,$(wildcard tests/interception/host*.c))) $(WAYS_LIBCUDA)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl
$(WAYS_LINKED:%=$(WAYS)/%): $(WAYS)/%: $(WAYS)/elf_%.o $(WAYS_LIBCUDA)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl
$(WAYS_LOADED:%=$(WAYS)/%): $(WAYS)/%: $(WAYS)/%.o $(WAYS)/load.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl
$(WAYS_ALONE:%=$(WAYS)/%): $(WAYS)/%: $(WAYS)/%.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl

$(WAYS)/profiler: tests/interception/profiler.c $(WAYS_LIBCUDA) $(BUILD)/sim/cupti/libcupti.so.13
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) $(CUPTI_CFLAGS) $(LDFLAGS_ALL) -o $@ $(filter-out %.h,$^) -ldl

$(WAYS)/libfunction_pointers.so: tests/interception/libfunction_pointers.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) $(WAYS_SHARED) -o $@ $<
$(WAYS)/libinjected_tool.so $(WAYS)/libslow_load.so $(WAYS)/libslow_open.so $(WAYS)/libcalls_back.so: $(WAYS)/%.so: tests/interception/%.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) $(WAYS_SHARED) -o $@ $< -ldl
$(WAYS)/librtld_next_O%.so: tests/interception/librtld_next.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -O$* $(WAYS_SHARED) -o $@ $< -ldl
$(WAYS)/libearly_allocation.so: tests/interception/libearly_allocation.c $(WAYS_LIBCUDA)
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -DWAYS_ELF $(WAYS_SHARED) -o $@ $< $(WAYS_LIBCUDA)

$(WAYS)/liblike_tms.so: tests/interception/liblike_tms.c $(WAYS_LIBCUDA)
	@mkdir -p $(@D)
	$(CC) $(filter-out -Wshadow,$(WAYS_CFLAGS)) -DWAYS_ELF $(WAYS_SHARED) -o $@ $< $(WAYS_LIBCUDA) -ldl
$(WAYS)/liblike_hami.so $(WAYS)/libforwarder.so $(WAYS)/liblike_malloc.so $(WAYS)/libresolver_spy.so: $(WAYS)/%.so: tests/interception/%.c
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -fno-builtin -DWAYS_ELF $(WAYS_SHARED) -o $@ $< -ldl
$(WAYS)/memory_saver: $(WAYS)/memory_saver.o $(BUILD)/sim/libcudart.so.13
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ldl
$(WAYS)/driver_asan: tests/interception/driver.c tests/interception/scenarios.c $(WAYS_LIBCUDA)
	@mkdir -p $(@D)
	$(CC) $(WAYS_CFLAGS) -DWAYS_ELF -fsanitize=address $(LDFLAGS_ALL) -o $@ $(filter %.c,$^) $(WAYS_LIBCUDA)

$(WAYS)/leaves_calls: tests/interception/leaves_calls.cpp $(WAYS_LIBCUDA)
	@mkdir -p $(@D)
	$(CXX) $(WAYS_CXXFLAGS) -o $@ $< $(WAYS_LIBCUDA) -ldl
$(WAYS)/signal_storm: $(WAYS)/signal_storm.o $(BUILD)/tests/recorder/stub/libcuda.so.1
	$(CC) $(LDFLAGS_ALL) -o $@ $^

# The driver with versioned symbols, which dlvsym needs.
$(WAYS)/versioned/libcuda.so.1: $(SIM_DRIVER_OBJECTS)
	@mkdir -p $(@D)
	printf 'WAYS_1.0 { global: cu[A-Z]*; sim_driver_*; local: *; };\n' >$(@D)/map
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,--version-script=$(@D)/map \
	    -o $@ $(SIM_DRIVER_OBJECTS) -ldl

# ---- the stand-in runtime: shared, static and by nvcc
WAYS_STATIC_CUDART := $(BUILD)/sim/libsimcudart.a -Wl,--exclude-libs,libsimcudart.a

$(WAYS)/driver_entry: $(WAYS)/driver.o $(WAYS)/load.o $(WAYS)/scenarios.o $(BUILD)/sim/libcudart.so.13
	$(CC) $(LDFLAGS_ALL) -Wl,--no-as-needed -o $@ $^ -ldl
$(WAYS)/runtime: $(WAYS)/runtime.o $(BUILD)/sim/libcudart.so.13
	$(CC) $(LDFLAGS_ALL) -o $@ $^
$(WAYS)/runtime_static: $(WAYS)/runtime.o $(BUILD)/sim/libsimcudart.a
	$(CC) $(LDFLAGS_ALL) -o $@ $< $(WAYS_STATIC_CUDART) -ldl
$(WAYS)/libplugin_static.so: tests/interception/plugin.c $(BUILD)/sim/libsimcudart.a
	$(CC) $(WAYS_CFLAGS) $(WAYS_SHARED) -o $@ $< $(WAYS_STATIC_CUDART) -ldl
$(WAYS)/libplugin%.so: tests/interception/plugin.c $(BUILD)/sim/libcudart.so.12 $(BUILD)/sim/libcudart.so.13
	$(CC) $(WAYS_CFLAGS) $(WAYS_SHARED) -o $@ $< $(BUILD)/sim/libcudart.so.$*
$(WAYS)/cudart_shared: $(WAYS)/cudart_real.o
	printf '%s\n' '$(abspath $(WAYS_CUDART))' >$(WAYS)/cudart_real.path
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -L$(WAYS_CUDART) -lcudart
$(WAYS)/cudart_static: $(WAYS)/cudart_real.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(WAYS_CUDART)/libcudart_static.a -ldl -lrt
$(WAYS)/nvcc_shared: tests/interception/nvcc_program.cu $(BUILD)/sim/libcudart.so
	$(WAYS_NVCC) -std=c++17 -cudart shared -L$(BUILD)/sim -Xlinker --no-as-needed -o $@ $<
$(WAYS)/nvcc_static: tests/interception/nvcc_program.cu $(BUILD)/sim/libsimcudart.a
	$(WAYS_NVCC) -std=c++17 -cudart none -o $@ $< $(BUILD)/sim/libsimcudart.a \
	    -Xlinker --exclude-libs,libsimcudart.a -ldl -lpthread

-include $(wildcard $(WAYS)/*.d)
