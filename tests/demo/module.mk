# SPDX-License-Identifier: Apache-2.0
# The program of scripts/demo.sh.

TESTS_native += $(BUILD)/tests/demo/demo
TESTS_cross += $(BUILD)/tests/demo/demo
$(BUILD)/tests/demo/demo: tests/demo/demo.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -rdynamic -o $@ $< -ldl
