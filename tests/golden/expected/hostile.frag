GPU 0 at the end: 1.00 MiB in 1 allocation
  address gaps              0 B  in 0 gaps between 1 live range, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks         1.00 MiB  unused in 1 block of 2 MiB with 1.00 MiB of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +10.166 s     1.00 MiB          0 B        0          0 B            -
  +10.333 s     1.00 MiB          0 B        0          0 B            -
  +10.500 s     1.00 MiB          0 B        0          0 B            -
  +10.666 s     1.00 MiB          0 B        0          0 B            -
  +10.833 s     1.00 MiB          0 B        0          0 B            -
  +11.000 s     1.00 MiB          0 B        0          0 B            -
  +11.166 s     1.00 MiB          0 B        0          0 B            -
  +11.333 s     1.00 MiB          0 B        0          0 B            -
  +11.500 s     1.00 MiB          0 B        0          0 B            -
  +11.666 s     1.00 MiB          0 B        0          0 B            -
  +11.833 s     1.00 MiB          0 B        0          0 B            -
  +12.000 s     1.00 MiB          0 B        0          0 B            -
[exit 0]
