#pragma once

#include "src/topology/node_type.h"

// Node types for tests, small enough to check by hand. The shipped topology files are tested in
// src/scenario/topology_file_test.cc.
namespace stepcast::topology {

// gpu[first..first + count - 1]. All devices of the kind if `count` is their number.
DeviceSet Devices(DeviceKind kind, int first, int count);

// A rule with the latency in nanoseconds and the bandwidth in GB/s.
LinkRule Rule(LinkKind kind, DeviceSet from, DeviceSet to, Join join, int count, int nanoseconds,
              int gigabytes);

// 8 GPUs, 4 NVSwitches with 5, 4, 4 and 5 links of 25 GB/s to each GPU (450 GB/s), 250 ns a link;
// 4 PCIe switches of 2 GPUs and 2 NICs each, 64 GB/s, 150 ns; 2 CPUs, 22 GB/s between them, 200 ns.
NodeType SwitchedNode();

// 4 GPUs and 1 NIC over PCIe, 32 GB/s, 200 ns a link: GPUs 0 and 1 and the NIC on switch 0 of CPU
// 0, GPUs 2 and 3 on switch 1 of CPU 1, 16 GB/s and 300 ns between the CPUs.
NodeType PcieNode();

// `gpus` GPUs, every pair joined by one NVLink of 64 GB/s, 500 ns. No NICs.
NodeType MeshNode(int gpus);

// 8 GPUs connected as in a DGX-1 with V100. Each GPU has six NVLinks of 25 GB/s, 700 ns, two of
// them to each of two partners. PCIe of 16 GB/s, 400 ns joins pairs of GPUs to 4 switches, the
// switches to 2 CPUs (9 GB/s), and one NIC to each switch.
NodeType CubeMeshNode();

// NIC ports of 50 GB/s, 400 ns.
Fabric OneSwitch();
// The same ports; 8 rails, units of 2 nodes, 2 spines with uplinks of 50 GB/s, 300 ns: equal
// bandwidth above and below a leaf.
Fabric Rails();
// The same ports; leaves of 2 nodes with 8 NICs each, 4 spines, uplinks of 300 ns.
Fabric FatTree(double oversubscription);

}  // namespace stepcast::topology
