GPU 0 at the end: 256.00 MiB in 1 allocation
  address gaps              0 B  in 0 gaps between 1 live range, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  pool 0x900           1.75 GiB  reserved but unused (256.00 MiB of 2.00 GiB used)
  OOMs             none despite enough free memory
  over time    allocated         gaps   number      largest free (about)
  +10.250 s   256.00 MiB          0 B        0          0 B            -
  +10.500 s   256.00 MiB          0 B        0          0 B            -
  +10.750 s   256.00 MiB          0 B        0          0 B            -
  +11.000 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +11.250 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +11.500 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +11.750 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +12.000 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +12.250 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +12.500 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +12.750 s   256.00 MiB          0 B        0          0 B     1.00 GiB
  +13.000 s   256.00 MiB          0 B        0          0 B     1.00 GiB
[exit 0]
