GPU 0 at the end: 30.00 MiB in 30 allocations
  address gaps        49.00 MiB  in 29 gaps between 30 live ranges, largest 21.00 MiB (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks        30.00 MiB  unused in 30 blocks of 2 MiB with 30.00 MiB of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +12.250 s    10.00 MiB     9.00 MiB        9     1.00 MiB            -
  +12.501 s    10.00 MiB     9.00 MiB        9     1.00 MiB            -
  +12.752 s    10.00 MiB     9.00 MiB        9     1.00 MiB            -
  +13.003 s    14.00 MiB    13.00 MiB       13     1.00 MiB            -
  +13.253 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +13.504 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +13.755 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +14.006 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +14.256 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +14.507 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +14.758 s    20.00 MiB    19.00 MiB       19     1.00 MiB            -
  +15.009 s    30.00 MiB    49.00 MiB       29    21.00 MiB            -
[exit 0]
cutrace-report: warning: killed.zst: 1 chunks are missing; the rest is reported
