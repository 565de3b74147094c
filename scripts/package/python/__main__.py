# SPDX-License-Identifier: Apache-2.0
"""python -m cutrace: the command cutrace, of this interpreter's environment."""
from cutrace import main

main()
