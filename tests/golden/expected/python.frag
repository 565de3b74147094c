GPU 0 at the end: 77.75 GiB in 9 allocations
  address gaps       434.50 GiB  in 8 gaps between 9 live ranges, largest 63.50 GiB (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +1.333 s     77.87 GiB   498.25 GiB        9    63.75 GiB            -
  +1.666 s     77.87 GiB   498.25 GiB        9    63.75 GiB            -
  +2.000 s     77.75 GiB   434.50 GiB        8    63.50 GiB            -
  +2.333 s     77.75 GiB   434.50 GiB        8    63.50 GiB            -
  +2.666 s     77.75 GiB   434.50 GiB        8    63.50 GiB            -
  +3.000 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +3.333 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +3.666 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +4.000 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +4.333 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +4.666 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
  +5.000 s     77.75 GiB   434.50 GiB        8    63.50 GiB     1.00 GiB
[exit 0]
