# SPDX-License-Identifier: Apache-2.0
# A light process to be watched.

WATCH_HOLD := $(BUILD)/tests/watch/hold
ifeq ($(SAN)$(CROSS),) # (a sanitized library cannot be preloaded)
TESTS += $(WATCH_HOLD)
endif

$(WATCH_HOLD): tests/watch/hold.c
	@mkdir -p $(@D)
	$(CC) $(filter-out -Iinclude,$(CFLAGS_ALL)) $(CUDA_CFLAGS) $(DEPFLAGS) -D_GNU_SOURCE -Itests $< $(LDFLAGS_ALL) -o $@ -ldl

-include $(wildcard $(WATCH_HOLD).d)
