// SPDX-License-Identifier: Apache-2.0
// Graphs, as graph.c (nodes), graph_exec.c (executables) and graph_memory.c share them.
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "stream.h"

struct sim_graph_memory { // what one allocation node stands for
    struct sim_range *range;
    int device;
    uint64_t size;
    unsigned references; // by its graph and executables
};

struct sim_node {
    struct sim_object o;
    struct sim_graph *graph;
    CUgraphNodeType type;
    struct sim_graph_memory *memory; // of an allocation node
    CUdeviceptr dptr;                // of an allocation or free node
    struct sim_bodies *bodies;       // of a conditional node
    size_t bytes;
    struct sim_node *next;
};

struct sim_graph {
    struct sim_object o;
    struct sim_node *first, **last;
    unsigned executables;
    struct sim_held *held;
};

// Makes the device's graph memory at least so large.
CUresult sim_graph_memory_cover(int device, uint64_t used);
void sim_graph_memory_use(struct sim_graph_memory *m); // by a launch
// Forgets it, if no graph, executable or launch has it any more.
void sim_graph_memory_drop(struct sim_graph_memory *m);
bool sim_graph_has_memory(const struct sim_graph *g);
void sim_graph_forget_executables(struct sim_graph *g); // the graph ends before them

#endif
