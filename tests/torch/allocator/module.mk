# SPDX-License-Identifier: Apache-2.0
# PyTorch's own caching allocator. What it needs is fetched and built by the suites themselves (wheels.py), for it takes a
# network: without one they say so and are skipped.

.PHONY: check-torch
check-torch: CUTRACE_FULL := 1
check-torch: SUITES := torch/allocator
check-torch: check

ifeq ($(SAN)$(CROSS),)
BENCHES += tests/bench/torch.py
bench: sim
endif
