# SPDX-License-Identifier: Apache-2.0
"""dlmopen: a plugin in a name space of its own has a driver of its own, which loads the library there
(CUDA_INJECTION64_PATH). A preloaded library is not in that name space."""
from section_deepbind import plugin_check

for _linkage in ("shared", "static"):
    for _way in ("injected", "injected-and-preloaded"):
        plugin_check("dlmopen", _linkage, _way)
