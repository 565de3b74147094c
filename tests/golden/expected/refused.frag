GPU 0 at the end: 72.25 GiB in 153 allocations
  address gaps              0 B  in 0 gaps between 144 live ranges, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +6.127 s     72.25 GiB          0 B        0          0 B     4.00 GiB
  +11.255 s    72.25 GiB          0 B        0          0 B     4.00 GiB
  +16.382 s    72.25 GiB          0 B        0          0 B     4.00 GiB
  +21.510 s    72.25 GiB          0 B        0          0 B     4.00 GiB
  +26.637 s    72.25 GiB          0 B        0          0 B     4.00 GiB
  +31.765 s    72.25 GiB          0 B        0          0 B     4.00 GiB
  +36.892 s    72.25 GiB          0 B        0          0 B     3.80 GiB
  +42.020 s    72.25 GiB          0 B        0          0 B     3.80 GiB
  +47.147 s    72.25 GiB          0 B        0          0 B     3.80 GiB
  +52.275 s    72.25 GiB          0 B        0          0 B     3.80 GiB
  +57.402 s    72.25 GiB          0 B        0          0 B     3.80 GiB
  +62.530 s    72.25 GiB          0 B        0          0 B     3.80 GiB
[exit 0]
