# SPDX-License-Identifier: Apache-2.0
# A light process to be watched, and a library that makes reading a trace take long.

WATCH_HOLD := $(BUILD)/tests/watch/hold
WATCH_HOLDS := $(BUILD)/tests/watch/libholds.so
TESTS_native += $(WATCH_HOLD) $(WATCH_HOLDS)

$(WATCH_HOLD): tests/watch/hold.c
	@mkdir -p $(@D)
	$(CC) $(filter-out -Iinclude,$(CFLAGS_ALL)) $(CUDA_CFLAGS) $(DEPFLAGS) -D_GNU_SOURCE -Itests $< $(LDFLAGS_ALL) -o $@ -ldl

$(WATCH_HOLDS): tests/watch/libholds.c
	@mkdir -p $(@D)
	$(CC) $(filter-out -Iinclude,$(CFLAGS_ALL)) $(DEPFLAGS) -D_GNU_SOURCE -shared -fPIC $< $(LDFLAGS_ALL) -o $@

-include $(wildcard $(WATCH_HOLD).d $(WATCH_HOLDS:.so=.d))
