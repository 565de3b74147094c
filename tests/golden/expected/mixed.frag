GPU 0 at the end: 3.00 MiB in 1 allocation
  address gaps              0 B  in 0 gaps between 1 live range, largest 0 B (inferred)
  rounding             1.00 MiB  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  pool 0x900          29.00 MiB  reserved but unused (3.00 MiB of 32.00 MiB used)
  opened                      -  in 1 allocation of other processes, by CUDA IPC
  imported                  0 B  mapped of 1 handle from other processes
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +10.341 s    40.00 MiB          0 B        0          0 B            -
  +10.583 s    45.00 MiB          0 B        0          0 B            -
  +10.825 s    45.00 MiB          0 B        0          0 B            -
  +11.066 s    45.00 MiB          0 B        0          0 B            -
  +11.308 s    45.00 MiB          0 B        0          0 B            -
  +11.550 s    45.00 MiB          0 B        0          0 B            -
  +11.791 s    45.00 MiB          0 B        0          0 B            -
  +12.033 s    45.00 MiB          0 B        0          0 B            -
  +12.275 s    48.00 MiB   182.00 MiB        1   182.00 MiB            -
  +12.516 s    48.00 MiB   182.00 MiB        1   182.00 MiB            -
  +12.758 s    48.00 MiB   182.00 MiB        1   182.00 MiB    15.00 GiB
  +13.000 s     3.00 MiB          0 B        0          0 B    15.01 GiB
GPU 1 at the end: 20.00 MiB in 1 allocation
  address gaps              0 B  in 0 gaps between 0 live ranges, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +10.341 s          0 B          0 B        0          0 B            -
  +10.583 s          0 B          0 B        0          0 B            -
  +10.825 s    20.00 MiB          0 B        0          0 B            -
  +11.066 s    40.00 MiB          0 B        0          0 B            -
  +11.308 s    40.00 MiB          0 B        0          0 B            -
  +11.550 s    40.00 MiB          0 B        0          0 B            -
  +11.791 s    20.00 MiB          0 B        0          0 B            -
  +12.033 s    20.00 MiB          0 B        0          0 B            -
  +12.275 s    20.00 MiB          0 B        0          0 B            -
  +12.516 s    20.00 MiB          0 B        0          0 B            -
  +12.758 s    20.00 MiB          0 B        0          0 B            -
  +13.000 s    20.00 MiB          0 B        0          0 B            -
[exit 0]
