# SPDX-License-Identifier: Apache-2.0
# Programs that are killed, fork or meet faults. Each has one source and opens the driver itself.

DEATH := $(BUILD)/tests/recorder
DEATH_CFLAGS = $(filter-out -Iinclude,$(CFLAGS_ALL)) $(CUDA_CFLAGS) $(DEPFLAGS)
DEATH_PROGRAMS := $(patsubst tests/recorder/%.c,$(DEATH)/%,$(filter-out tests/recorder/lib%.c,$(wildcard tests/recorder/*.c)))
DEATH_LIBRARIES := $(patsubst tests/recorder/%.c,$(DEATH)/%.so,$(wildcard tests/recorder/lib*.c))
DEATH_STUB := $(DEATH)/stub/libcuda.so.1

TESTS_native += $(DEATH_PROGRAMS) $(DEATH_LIBRARIES) $(DEATH_STUB)

.PHONY: recorder-programs
recorder-programs: $(DEATH_PROGRAMS) $(DEATH_LIBRARIES) $(DEATH_STUB)

$(DEATH_PROGRAMS): $(DEATH)/%: tests/recorder/%.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -D_GNU_SOURCE $< $(LDFLAGS_ALL) -o $@ -ldl
$(DEATH_LIBRARIES): $(DEATH)/%.so: tests/recorder/%.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -D_GNU_SOURCE -shared -fPIC $< $(LDFLAGS_ALL) -o $@ -ldl

$(DEATH_STUB): tests/recorder/stub/libcuda.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -shared -fPIC -Wl,-soname,libcuda.so.1 $< $(LDFLAGS_ALL) -o $@

-include $(wildcard $(DEATH)/*.d)
