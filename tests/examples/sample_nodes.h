#pragma once

#include "src/topology/node_type.h"

// Node types for tests, small enough to check by hand. The shipped topology files are tested in
// src/scenario/topology_file_test.cc.
namespace stepcast::topology {

// Returns gpu[first..first + count - 1], or the same range of another kind. If `count` is the
// number of all devices of the kind, the set contains all of them.
DeviceSet Devices(DeviceKind kind, int first, int count);

// Returns a rule for links with this latency in nanoseconds and this bandwidth in GB/s.
LinkRule Rule(LinkKind kind, DeviceSet from, DeviceSet to, Join join, int count, int nanoseconds,
              int gigabytes);

// Returns a node of 8 GPUs and 4 NVSwitches. Each GPU has 5, 4, 4 and 5 links of 25 GB/s and 250 ns
// to the switches (450 GB/s). The node also has 4 PCIe switches with 2 GPUs and 2 NICs each (64
// GB/s, 150 ns), and 2 CPUs (22 GB/s and 200 ns between them).
NodeType SwitchedNode();

// Returns a node of 4 GPUs and 1 NIC over PCIe links of 32 GB/s and 200 ns. GPUs 0 and 1 and the
// NIC are on switch 0 of CPU 0; GPUs 2 and 3 are on switch 1 of CPU 1. The link between the CPUs
// has 16 GB/s and 300 ns.
NodeType PcieNode();

// Returns a node of `gpus` GPUs without NICs. One NVLink of 64 GB/s and 500 ns joins every pair.
NodeType MeshNode(int gpus);

// Returns a node of 8 GPUs connected as in a DGX-1 with V100. Each GPU has six NVLinks of 25 GB/s
// and 700 ns, two of them to each of two partners. PCIe links of 16 GB/s and 400 ns join pairs of
// GPUs to 4 switches, the switches to 2 CPUs (9 GB/s), and one NIC to each switch.
NodeType CubeMeshNode();

// Returns a fabric of one switch. NIC ports have 50 GB/s and 400 ns.
Fabric OneSwitch();
// Returns a rail-optimized fabric with the ports of OneSwitch: 8 rails, units of 2 nodes, and 2
// spines with uplinks of 50 GB/s and 300 ns. The bandwidth above a leaf equals the bandwidth below
// it.
Fabric Rails();
// Returns a fat tree with the ports of OneSwitch: leaves of 2 nodes with 8 NICs each, 4 spines, and
// uplinks of 300 ns.
Fabric FatTree(double oversubscription);

}  // namespace stepcast::topology
