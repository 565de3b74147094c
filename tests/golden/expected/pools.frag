GPU 0 at the end: 46.00 MiB in 3 allocations
  address gaps        12.00 MiB  in 1 gap between 2 live ranges, largest 12.00 MiB (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  PyTorch             48.00 MiB  reserved; 29.00 MiB of it in 3 blocks
  segments            46.00 MiB  in 3 segments: 1 mapped of a MemPool's allocator in cumem_allocator.so, 2 cudaMalloc
  unreconciled         2.00 MiB  reserved by PyTorch without a recorded call to the driver
  free inside         17.50 MiB  in 3 free blocks, largest at most 8.00 MiB; external fragmentation 0.54
    small requests     1.50 MiB  in 1 free block, largest at most 1.50 MiB
  idle                      0 B  in 0 segments without blocks: could be freed
  held open           17.50 MiB  free in 2 segments that blocks hold open
  "at most" includes blocks of other streams and pools, and blocks still in use on one
  held by           free segments    in blocks    exclusive       oldest  call site
               16.00 MiB        1     4.00 MiB    20.00 MiB       24.0 s  train.py:77 optimizer
                1.50 MiB        1   512.00 KiB     2.00 MiB       19.0 s  train.py:12 scalar
  grew                        3  times: 1 not enough free, 2 fragmented, 0 large enough block unused
  OOM                         1  time: 1 not enough free, 0 fragmented, 0 large enough block unused
  retries             at most 1  request for which PyTorch freed its cached segments
    +10.000 s event 9: 10.00 MiB requested, grew by 10.00 MiB; 16.00 MiB was free, largest at most 8.00 MiB; train.py:91 logits
      in the way at 0x7f0000000000: 4.00 MiB in 1 block, the oldest 7.0 s old; largest: train.py:77 optimizer
    +15.000 s event 14: 24.00 MiB requested, grew by 24.00 MiB; 26.00 MiB was free, largest at most 10.00 MiB; train.py:5 weights
      no segment is large enough
    +27.000 s event 26: 220.00 MiB OOM; 26.00 MiB was free, largest at most 10.00 MiB; train.py:91 logits
  pool         reserved    in blocks  free inside   number              largest   ext.
  +3.166 s     20.00 MiB    12.00 MiB     8.00 MiB        1     at most 8.00 MiB   0.00
  +5.333 s     20.00 MiB    11.00 MiB     9.00 MiB        2     at most 8.00 MiB   0.11
  +7.500 s     20.00 MiB     4.00 MiB    16.00 MiB        2     at most 8.00 MiB   0.50
  +9.666 s     22.00 MiB     5.00 MiB    17.50 MiB        3     at most 8.00 MiB   0.54
  +11.833 s    34.00 MiB     5.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +14.000 s    34.00 MiB     5.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +16.166 s    58.00 MiB    29.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +18.333 s    58.00 MiB    29.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +20.500 s    58.00 MiB    29.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +22.666 s    58.00 MiB    29.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +24.833 s    58.00 MiB    29.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +27.000 s    48.00 MiB    29.00 MiB    17.50 MiB        3     at most 8.00 MiB   0.54
  worst moments
  +11.000 s    34.00 MiB     5.00 MiB    27.50 MiB        4    at most 10.00 MiB   0.63
  +8.000 s     22.00 MiB     5.00 MiB    17.50 MiB        3     at most 8.00 MiB   0.54
  +6.000 s     20.00 MiB     4.00 MiB    16.00 MiB        2     at most 8.00 MiB   0.50
  over time    allocated         gaps   number      largest free (about)
  +3.166 s     20.00 MiB          0 B        0          0 B            -
  +5.333 s     20.00 MiB          0 B        0          0 B            -
  +7.500 s     22.00 MiB    12.00 MiB        1    12.00 MiB            -
  +9.666 s     32.00 MiB    42.00 MiB        2    30.00 MiB            -
  +11.833 s    32.00 MiB    42.00 MiB        2    30.00 MiB            -
  +14.000 s    56.00 MiB    42.00 MiB        2    30.00 MiB            -
  +16.166 s    56.00 MiB    42.00 MiB        2    30.00 MiB            -
  +18.333 s    56.00 MiB    42.00 MiB        2    30.00 MiB            -
  +20.500 s    56.00 MiB    42.00 MiB        2    30.00 MiB            -
  +22.666 s    56.00 MiB    42.00 MiB        2    30.00 MiB            -
  +24.833 s    56.00 MiB    42.00 MiB        2    30.00 MiB   196.00 MiB
  +27.000 s    46.00 MiB    12.00 MiB        1    12.00 MiB   206.00 MiB
GPU 1 at the end: 40.00 MiB in 2 allocations
  address gaps              0 B  in 0 gaps between 0 live ranges, largest 0 B (inferred)
  rounding                  0 B  of large allocations up to multiples of 2 MiB (inferred)
  small blocks              0 B  unused in 0 blocks of 2 MiB with 0 B of small allocations (inferred)
  OOMs             none despite enough free memory
  PyTorch             42.00 MiB  reserved; 32.00 MiB of it in 2 blocks
  segments            40.00 MiB  in 1 segment: 1 expandable
  unreconciled         2.00 MiB  reserved by PyTorch without a recorded call to the driver
  outside              2.00 MiB  of blocks in memory without a recorded call
  free inside         10.00 MiB  in 1 free block, largest at most 10.00 MiB; external fragmentation 0.00
    small requests          0 B  in 0 free blocks, largest 0 B
  idle                      0 B  in 0 segments without blocks: could be freed
  held open           10.00 MiB  free in 1 segment that blocks hold open
  "at most" includes blocks of other streams and pools, and blocks still in use on one
  held by           free segments    in blocks    exclusive       oldest  call site
               10.00 MiB        1    30.00 MiB    40.00 MiB        6.0 s  train.py:31 cache
  grew                        1  time: 1 not enough free, 0 fragmented, 0 large enough block unused
  OOM                         1  time: 1 not enough free, 0 fragmented, 0 large enough block unused
  retries             at most 1  request for which PyTorch freed its cached segments
    +23.000 s event 22: 100.00 MiB OOM; 10.00 MiB was free, largest at most 10.00 MiB; train.py:31 cache
  pool         reserved    in blocks  free inside   number              largest   ext.
  +22.666 s    42.00 MiB    32.00 MiB    10.00 MiB        1    at most 10.00 MiB   0.00
  +24.833 s    42.00 MiB    32.00 MiB    10.00 MiB        1    at most 10.00 MiB   0.00
  +27.000 s    42.00 MiB    32.00 MiB    10.00 MiB        1    at most 10.00 MiB   0.00
  over time    allocated         gaps   number      largest free (about)
  +3.166 s           0 B          0 B        0          0 B            -
  +5.333 s           0 B          0 B        0          0 B            -
  +7.500 s           0 B          0 B        0          0 B            -
  +9.666 s           0 B          0 B        0          0 B            -
  +11.833 s          0 B          0 B        0          0 B            -
  +14.000 s          0 B          0 B        0          0 B            -
  +16.166 s          0 B          0 B        0          0 B            -
  +18.333 s    20.00 MiB          0 B        0          0 B            -
  +20.500 s    40.00 MiB          0 B        0          0 B            -
  +22.666 s    40.00 MiB          0 B        0          0 B            -
  +24.833 s    40.00 MiB          0 B        0          0 B            -
  +27.000 s    40.00 MiB          0 B        0          0 B            -
[exit 0]
