#pragma once

#include "src/topology/node_type.h"

// Node types for tests, small enough to check by hand. The shipped topology files are tested in
// src/scenario/topology_file_test.cc.
namespace stepcast::topology {

// Returns gpu[first..first + count - 1], or the same range of another kind. The set is all devices
// of the kind if `count` is their number.
DeviceSet Devices(DeviceKind kind, int first, int count);

// Returns a rule with the latency in nanoseconds and the bandwidth in GB/s.
LinkRule Rule(LinkKind kind, DeviceSet from, DeviceSet to, Join join, int count, int nanoseconds,
              int gigabytes);

// Returns a node of 8 GPUs and 4 NVSwitches with 5, 4, 4 and 5 links of 25 GB/s to each GPU (450
// GB/s), 250 ns a link. It also has 4 PCIe switches of 2 GPUs and 2 NICs each, 64 GB/s, 150 ns, and
// 2 CPUs, 22 GB/s between them, 200 ns.
NodeType SwitchedNode();

// Returns a node of 4 GPUs and 1 NIC over PCIe, 32 GB/s, 200 ns a link. GPUs 0 and 1 and the NIC
// are on switch 0 of CPU 0; GPUs 2 and 3 are on switch 1 of CPU 1; 16 GB/s and 300 ns between the
// CPUs.
NodeType PcieNode();

// Returns a node of `gpus` GPUs, every pair joined by one NVLink of 64 GB/s, 500 ns. No NICs.
NodeType MeshNode(int gpus);

// Returns a node of 8 GPUs connected as in a DGX-1 with V100. Each GPU has six NVLinks of 25 GB/s,
// 700 ns, two of them to each of two partners. PCIe of 16 GB/s, 400 ns joins pairs of GPUs to 4
// switches, the switches to 2 CPUs (9 GB/s), and one NIC to each switch.
NodeType CubeMeshNode();

// Returns a fabric of one switch, with NIC ports of 50 GB/s, 400 ns.
Fabric OneSwitch();
// Returns a rail-optimized fabric with the ports of OneSwitch: 8 rails, units of 2 nodes, 2 spines
// with uplinks of 50 GB/s, 300 ns. Bandwidth above and below a leaf is equal.
Fabric Rails();
// Returns a fat tree with the ports of OneSwitch: leaves of 2 nodes with 8 NICs each, 4 spines,
// uplinks of 300 ns.
Fabric FatTree(double oversubscription);

}  // namespace stepcast::topology
