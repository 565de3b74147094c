# SPDX-License-Identifier: Apache-2.0
# The simulated driver and NVML, and the stand-in runtime. None of them is installed.

SIM_OUT := $(BUILD)/sim
SIM_CFLAGS = $(filter-out -Werror,$(CFLAGS_ALL)) $(if $(filter 1,$(WERROR)),-Werror) $(DEPFLAGS) \
    -fPIC $(CUDA_CFLAGS) -Itests/sim -Wno-unused-parameter # (of CUDA's prototypes)
SIM_DRIVER := param shared call ledger ledger_map fail object space device context memory managed stream \
    capture pool pool_share vmm vmm_share multicast array host ipc ipc_event external \
    graph graph_exec graph_memory conditional user_object module link function occupancy tensor_map \
    launch copy copy2d pages checkpoint pointer old_abi errors resolver \
    injection
# CUPTI sees the calls at the exported functions (trace_points.c), for which the functions that do the work are renamed
# in all objects but the resolver's, which hands the exported ones out. Without CUPTI's headers there are no such calls.
SIM_PLAIN_OBJECTS := $(SIM_DRIVER:%=$(SIM_OUT)/%.o)
SIM_DRIVER_OBJECTS := $(if $(CUPTI_INC),$(patsubst $(SIM_OUT)/%.o,$(SIM_OUT)/traced/%.o,$(filter-out \
    %/resolver.o,$(SIM_PLAIN_OBJECTS))) $(SIM_OUT)/resolver.o $(SIM_OUT)/trace_points.o,$(SIM_PLAIN_OBJECTS))

TESTS_native += sim
TESTS_cross += sim
.PHONY: sim
sim: $(addprefix $(SIM_OUT)/,libcuda.so.1 libcuda.so libnvidia-ml.so.1 libcudart.so.13 libcudart.so.12 \
    libcudart.so libsimcudart.a $(if $(CUPTI_INC),cupti/libcupti.so.12 cupti/libcupti.so.13))

$(SIM_OUT)/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -c $< -o $@
$(SIM_OUT)/trace_points.o: SIM_CFLAGS += $(CUPTI_CFLAGS)

$(SIM_OUT)/traced/names: $(EXPORTS)
	@mkdir -p $(@D)
	sed -n 's/^cu[A-Z].*/& sim_body_&/p' $< >$@
$(SIM_OUT)/traced/%.o: $(SIM_OUT)/%.o $(SIM_OUT)/traced/names
	$(OBJCOPY) --redefine-syms=$(SIM_OUT)/traced/names $< $@

# The stand-in for CUPTI (not NVIDIA's), in a folder of its own: PyTorch's stand-ins have another libcupti.
$(SIM_OUT)/cupti/libcupti.so.12: SIM_CUPTI_FLAGS := -DSIM_CUPTI_VERSION=28
$(SIM_OUT)/cupti/libcupti.so.13: SIM_CUPTI_FLAGS := -DSIM_CUPTI_VERSION=130001 -DSIM_CUPTI_NAMES
$(SIM_OUT)/cupti/libcupti.so.%: tests/sim/cupti.c tests/sim/cupti_activity.c tests/sim/cupti_modules.c tests/sim/sim_cupti.h \
    tests/sim/trace_points.h tests/sim/module.mk
	@mkdir -p $(@D)
	printf '$(@F) {\nglobal:\n    cupti*;\nlocal:\n    *;\n};\n' >$@.map
	$(CC) $(filter-out -MMD -MP,$(SIM_CFLAGS)) $(CUPTI_CFLAGS) $(SIM_CUPTI_FLAGS) $(LDFLAGS_ALL) -shared -fvisibility=hidden \
	    -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,--version-script=$@.map $(if $(SAN),,-Wl,-z,defs) -o $@ $(filter %.c,$^) -ldl

# -Bsymbolic: like the real driver it hands out its own functions, not an interposer's.
$(SIM_OUT)/libcuda.so.1: $(SIM_DRIVER_OBJECTS) tests/sim/libcuda.map
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
	    $(if $(SAN),,-Wl,-z,defs) -Wl,--version-script=tests/sim/libcuda.map \
	    -o $@ $(SIM_DRIVER_OBJECTS) -ldl

# For programs that are linked with -lcuda.
$(SIM_OUT)/libcuda.so: $(SIM_OUT)/libcuda.so.1
	ln -sf libcuda.so.1 $@

SIM_NVML_OBJECTS := $(SIM_OUT)/nvml.o $(SIM_OUT)/param.o $(SIM_OUT)/shared.o
$(SIM_OUT)/libnvidia-ml.so.1: $(SIM_NVML_OBJECTS) tests/sim/libnvidia-ml.map
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libnvidia-ml.so.1 $(if $(SAN),,-Wl,-z,defs) \
	    -Wl,--version-script=tests/sim/libnvidia-ml.map -o $@ $(SIM_NVML_OBJECTS) -ldl

# The stand-in runtime (not NVIDIA's): shared, once more under the name of an older version so that two can
# share a process, and static. A program that links the archive hides its symbols with
# -Wl,--exclude-libs,libsimcudart.a, as NVIDIA's static runtime does by itself.
SIM_RUNTIME_OBJECTS := $(patsubst %,$(SIM_OUT)/runtime/%.o,driver device properties memory pool stream array code \
    function user_object)

$(SIM_OUT)/libcudart.so.%.map: tests/sim/module.mk
	@mkdir -p $(@D)
	@printf 'libcudart.so.$* {\nglobal:\n    cuda*;\n    __cuda*;\nlocal:\n    *;\n};\n' >$@

$(SIM_OUT)/libcudart.so.%: $(SIM_OUT)/libcudart.so.%.map $(SIM_RUNTIME_OBJECTS)
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcudart.so.$* -Wl,-Bsymbolic $(if $(SAN),,-Wl,-z,defs) \
	    -Wl,--version-script=$< -o $@ $(SIM_RUNTIME_OBJECTS) -ldl

$(SIM_OUT)/libcudart.so: $(SIM_OUT)/libcudart.so.13
	ln -sf libcudart.so.13 $@

$(SIM_OUT)/libsimcudart.a: $(SIM_RUNTIME_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $(SIM_RUNTIME_OBJECTS)

-include $(SIM_RUNTIME_OBJECTS:.o=.d) $(SIM_OUT)/nvml.d $(SIM_OUT)/trace_points.d \
    $(SIM_PLAIN_OBJECTS:.o=.d)
