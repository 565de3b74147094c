GPU 0 at the end: 26.00 MiB in 2 allocations
  address gaps       236.00 MiB  in 1 gap between 2 live ranges, largest 236.00 MiB (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  PyTorch             20.00 MiB  reserved; 5.00 MiB of it in 10 blocks
  segments            20.00 MiB  in 1 segment: 1 cudaMalloc
  free inside         15.00 MiB  in 7 free blocks, largest at most 12.00 MiB; external fragmentation 0.20
    small requests          0 B  in 0 free blocks, largest 0 B
  idle                      0 B  in 0 segments without blocks: could be freed
  held open           15.00 MiB  free in 1 segment that blocks hold open
  "at most" includes blocks of other streams and pools, and blocks still in use on one
  held by           free segments    in blocks    exclusive       oldest  call site
               15.00 MiB        1     3.00 MiB          0 B        0.0 s  model.py:51 forward
               15.00 MiB        1     2.00 MiB          0 B        0.0 s  loss.py:7 loss
  grew                        0  times: 0 not enough free, 0 fragmented, 0 large enough block unused
  OOM                         1  time: 1 not enough free, 0 fragmented, 0 large enough block unused
  retries             at most 1  request for which PyTorch freed its cached segments
    +10.028 s event 27: 100.00 MiB OOM; 15.00 MiB was free, largest at most 12.00 MiB; model.py:51 forward
  pool         reserved    in blocks  free inside   number              largest   ext.
  +10.017 s    20.00 MiB     3.29 MiB    16.70 MiB        5    at most 15.00 MiB   0.10
  +10.018 s    20.00 MiB     3.79 MiB    16.20 MiB        5    at most 14.50 MiB   0.10
  +10.019 s    20.00 MiB     4.08 MiB    15.91 MiB        5    at most 14.20 MiB   0.10
  +10.020 s    20.00 MiB     4.58 MiB    15.41 MiB        6    at most 13.50 MiB   0.12
  +10.021 s    20.00 MiB     5.08 MiB    14.91 MiB        6    at most 13.00 MiB   0.12
  +10.022 s    20.00 MiB     5.37 MiB    14.62 MiB        6    at most 12.70 MiB   0.13
  +10.023 s    20.00 MiB     5.87 MiB    14.12 MiB        7    at most 12.00 MiB   0.15
  +10.024 s    20.00 MiB     5.58 MiB    14.41 MiB        7    at most 12.00 MiB   0.16
  +10.025 s    20.00 MiB     5.29 MiB    14.70 MiB        7    at most 12.00 MiB   0.18
  +10.026 s    20.00 MiB     5.00 MiB    15.00 MiB        7    at most 12.00 MiB   0.20
  +10.027 s    20.00 MiB     5.00 MiB    15.00 MiB        7    at most 12.00 MiB   0.20
  +10.028 s    20.00 MiB     5.00 MiB    15.00 MiB        7    at most 12.00 MiB   0.20
  worst moments
  +10.026 s    20.00 MiB     5.00 MiB    15.00 MiB        7    at most 12.00 MiB   0.20
  +10.025 s    20.00 MiB     5.29 MiB    14.70 MiB        7    at most 12.00 MiB   0.18
  +10.024 s    20.00 MiB     5.58 MiB    14.41 MiB        7    at most 12.00 MiB   0.16
  over time    allocated         gaps   number      largest free (about)
  +10.017 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.018 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.019 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.020 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.021 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.022 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.023 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.024 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.025 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.026 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.027 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
  +10.028 s    26.00 MiB   236.00 MiB        1   236.00 MiB            -
GPU 1 at the end: 2.00 MiB in 1 allocation
  address gaps              0 B  in 0 gaps between 1 live range, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  PyTorch              2.00 MiB  reserved; 0 B of it in 0 blocks
  segments             2.00 MiB  in 1 segment: 1 cudaMalloc
  free inside          2.00 MiB  in 1 free block, largest at most 2.00 MiB; external fragmentation 0.00
    small requests     2.00 MiB  in 1 free block, largest at most 2.00 MiB
  idle                 2.00 MiB  in 1 segment without blocks: could be freed
  held open                 0 B  free in 0 segments that blocks hold open
  "at most" includes blocks of other streams and pools, and blocks still in use on one
  grew                        0  times: 0 not enough free, 0 fragmented, 0 large enough block unused
  pool         reserved    in blocks  free inside   number              largest   ext.
  +10.017 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.018 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.019 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.020 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.021 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.022 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.023 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.024 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.025 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.026 s     2.00 MiB        512 B     1.99 MiB        1     at most 1.99 MiB   0.00
  +10.027 s     2.00 MiB          0 B     2.00 MiB        1     at most 2.00 MiB   0.00
  +10.028 s     2.00 MiB          0 B     2.00 MiB        1     at most 2.00 MiB   0.00
  over time    allocated         gaps   number      largest free (about)
  +10.017 s     2.00 MiB          0 B        0          0 B            -
  +10.018 s     2.00 MiB          0 B        0          0 B            -
  +10.019 s     2.00 MiB          0 B        0          0 B            -
  +10.020 s     2.00 MiB          0 B        0          0 B            -
  +10.021 s     2.00 MiB          0 B        0          0 B            -
  +10.022 s     2.00 MiB          0 B        0          0 B            -
  +10.023 s     2.00 MiB          0 B        0          0 B            -
  +10.024 s     2.00 MiB          0 B        0          0 B            -
  +10.025 s     2.00 MiB          0 B        0          0 B            -
  +10.026 s     2.00 MiB          0 B        0          0 B            -
  +10.027 s     2.00 MiB          0 B        0          0 B            -
  +10.028 s     2.00 MiB          0 B        0          0 B            -
[exit 0]
