# SPDX-License-Identifier: Apache-2.0
# Programs that are killed, fork, or run into trouble. Each is one source that opens the driver itself.

DEATH := $(BUILD)/tests/death
DEATH_CFLAGS = $(filter-out -Iinclude,$(CFLAGS_ALL)) $(CUDA_CFLAGS) $(DEPFLAGS)
DEATH_PROGRAMS := $(patsubst tests/death/%.c,$(DEATH)/%,$(filter-out tests/death/lib%.c,$(wildcard tests/death/*.c)))
DEATH_LIBRARIES := $(patsubst tests/death/%.c,$(DEATH)/%.so,$(wildcard tests/death/lib*.c))
DEATH_STUB := $(DEATH)/stub/libcuda.so.1

ifeq ($(SAN)$(CROSS),) # a sanitised library cannot be preloaded, a foreign one not be run like this
TESTS += $(DEATH_PROGRAMS) $(DEATH_LIBRARIES) $(DEATH_STUB)
endif

.PHONY: death
death: $(DEATH_PROGRAMS) $(DEATH_LIBRARIES) $(DEATH_STUB)

$(DEATH_PROGRAMS): $(DEATH)/%: tests/death/%.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -D_GNU_SOURCE $< $(LDFLAGS_ALL) -o $@ -ldl
$(DEATH_LIBRARIES): $(DEATH)/%.so: tests/death/%.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -D_GNU_SOURCE -shared -fPIC $< $(LDFLAGS_ALL) -o $@ -ldl

$(DEATH_STUB): tests/death/stub/libcuda.c
	@mkdir -p $(@D)
	$(CC) $(DEATH_CFLAGS) -shared -fPIC -Wl,-soname,libcuda.so.1 $< $(LDFLAGS_ALL) -o $@

-include $(wildcard $(DEATH)/*.d)
