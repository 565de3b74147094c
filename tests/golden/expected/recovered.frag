GPU 0 at the end: 768.00 MiB in 5 allocations
  address gaps              0 B  in 0 gaps between 5 live ranges, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             1 despite enough free memory in total:
    +22.000 s event 10: requested 256.00 MiB, free 356.00 MiB
  over time    allocated         gaps   number      largest free (about)
  +11.166 s   256.00 MiB          0 B        0          0 B            -
  +12.333 s   384.00 MiB          0 B        0          0 B            -
  +13.500 s   512.00 MiB          0 B        0          0 B            -
  +14.666 s   640.00 MiB          0 B        0          0 B            -
  +15.833 s   768.00 MiB          0 B        0          0 B            -
  +17.000 s   896.00 MiB          0 B        0          0 B            -
  +18.166 s   896.00 MiB          0 B        0          0 B            -
  +19.333 s   896.00 MiB          0 B        0          0 B            -
  +20.500 s   896.00 MiB          0 B        0          0 B   100.00 MiB
  +21.666 s   640.00 MiB   128.00 MiB        1   128.00 MiB   356.00 MiB
  +22.833 s   640.00 MiB   128.00 MiB        1   128.00 MiB   356.00 MiB
  +24.000 s   768.00 MiB          0 B        0          0 B   228.00 MiB
[exit 0]
