an estimate: one allocation in 64K was recorded (CUTRACE_SAMPLE=64K): multiply what is allocated by 64K
GPU 0 at the end: 60.00 MiB in 60 allocations
  address gaps       177.00 MiB  in 59 gaps between 60 live ranges, largest 3.00 MiB (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks        60.00 MiB  unused in 60 blocks of 2 MiB with 60.00 MiB of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +13.667 s    20.00 MiB    57.00 MiB       19     3.00 MiB            -
  +14.334 s    25.00 MiB    72.00 MiB       24     3.00 MiB          0 B
  +15.002 s    27.00 MiB    78.00 MiB       26     3.00 MiB          0 B
  +15.669 s    45.00 MiB   132.00 MiB       44     3.00 MiB            -
  +16.337 s    45.00 MiB   132.00 MiB       44     3.00 MiB            -
  +17.004 s    45.00 MiB   132.00 MiB       44     3.00 MiB            -
  +17.671 s    45.00 MiB   132.00 MiB       44     3.00 MiB            -
  +18.339 s    45.00 MiB   132.00 MiB       44     3.00 MiB            -
  +19.006 s    49.00 MiB   144.00 MiB       48     3.00 MiB            -
  +19.674 s    50.00 MiB   147.00 MiB       49     3.00 MiB            -
  +20.341 s    55.00 MiB   162.00 MiB       54     3.00 MiB            -
  +21.009 s    60.00 MiB   177.00 MiB       59     3.00 MiB            -
[exit 0]
