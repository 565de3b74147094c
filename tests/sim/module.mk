# SPDX-License-Identifier: Apache-2.0
# The simulated driver and NVML, and the stand-in runtime. None of them is installed.

SIM_OUT := $(BUILD)/sim
SIM_CFLAGS = $(filter-out -Werror,$(CFLAGS_ALL)) $(if $(filter 1,$(WERROR)),-Werror) $(DEPFLAGS) \
    -fPIC $(CUDA_CFLAGS) -Itests/sim
SIM_DRIVER := param shared call ledger fail object space device context memory managed stream \
    capture pool pool_share vmm vmm_share multicast array host ipc external graph module launch \
    copy checkpoint pointer old_abi errors resolver
SIM_DRIVER_OBJECTS := $(SIM_DRIVER:%=$(SIM_OUT)/%.o)

TESTS += sim
.PHONY: sim
sim: $(SIM_OUT)/libcuda.so.1

$(SIM_OUT)/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -c $< -o $@

# -Bsymbolic: like the real driver it hands out its own functions, not an interposer's.
$(SIM_OUT)/libcuda.so.1: $(SIM_DRIVER_OBJECTS) tests/sim/libcuda.map
	$(CC) $(LDFLAGS_ALL) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
	    $(if $(SAN),,-Wl,-z,defs) -Wl,--version-script=tests/sim/libcuda.map \
	    -o $@ $(SIM_DRIVER_OBJECTS) -ldl

-include $(SIM_DRIVER_OBJECTS:.o=.d)
