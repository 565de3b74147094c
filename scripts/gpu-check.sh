#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can decide, in at most twelve minutes, from the tree or from the pack of gpu-pack.sh; where vLLM
# can be imported, its cases in ten minutes more.
#
# Usage: sh scripts/gpu-check.sh [--out DIR] [--quick] [--only SECTION|SECTION.CHECK]... [--simulated] [--list]
#   --out DIR      results: DIR/<gpu>-<driver>-<date>.json and .md (build/gpu-check-results)
#   --quick        fewer sizes and rounds
#   --simulated    on the simulated driver of tests/sim instead of a GPU, what can run there
# PYTHON=/path/python3 names the Python that has PyTorch.
# Exit status: 0 all passed, 1 some failed, 2 usage, 77 no GPU here. tests/gpu/README.md says more.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 2

# vLLM from the pack, where the pack has one; what the machine has beside it stays.
if [ -d "$root/vllm/vllm" ]; then
    export PYTHONPATH="$root/vllm${PYTHONPATH:+:$PYTHONPATH}"
fi

# A Python with PyTorch, where there is one, before one without.
python=
for candidate in "${PYTHON:-}" python3 python3.12 python3.13 python3.11 python3.10 /opt/conda/bin/python3 \
    /opt/venv/bin/python3 /usr/bin/python3; do
    path=$(command -v "${candidate:-/nonexistent}" 2>/dev/null) || continue
    "$path" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    : "${python:=$path}"
    [ -n "${PYTHON:-}" ] && break
    if "$path" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; then
        python=$path
        break
    fi
done
if [ -z "$python" ]; then
    echo "gpu-check.sh: no Python 3 here" >&2
    exit 2
fi
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$root/tests/gpu/gpu_check.py" "$@"
