# SPDX-License-Identifier: Apache-2.0
# The checks that need a GPU: `make gpu-check` here (exit status 77 without one), `make gpu-pack` for another machine.

.PHONY: gpu-check gpu-pack
gpu-check: build-tests
	CUTRACE_BUILD=$(abspath $(BUILD)) sh scripts/gpu-check.sh --out $(BUILD)/gpu-check-results
gpu-pack: build-tests
	CUTRACE_BUILD=$(abspath $(BUILD)) sh scripts/gpu-pack.sh
