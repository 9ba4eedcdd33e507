#pragma once

#include <vector>

#include "src/nccl/cpu.h"

// A machine as NCCL sees it: of its GPUs only those that belong to the communicator.
namespace stepcast::nccl {

// Where a device is plugged in.
struct PcieSlot {
  int pcie_switch = -1;  // index into Node::switches; -1: at the processor
  int socket = 0;        // of a device without switch
  double bandwidth = 0;  // of its own PCIe link, see PcieBandwidth
};

struct PcieSwitch {
  int socket = 0;
  double bandwidth = 0;  // of the link to the processor
};

struct Gpu {
  int compute_capability = 0;  // 90 is 9.0
  int nvswitch_links = 0;      // NVLinks into NVSwitch; 0: there is none
  PcieSlot slot;
};

// NVLinks that join two GPUs directly.
struct NvlinkBundle {
  int a = 0;
  int b = 0;
  int links = 0;
};

struct Nic {
  double bandwidth = 0;  // of its port, see PortBandwidth
  double latency = 0;    // us, as the network plug-in states it; 0 for InfiniBand and RoCE
  bool reduces = false;  // the network can reduce for it (SHARP)
  PcieSlot slot;
};

struct Node {
  std::vector<Gpu> gpus;  // in order of rank
  std::vector<NvlinkBundle> nvlinks;
  std::vector<PcieSwitch> switches;
  std::vector<Nic> nics;
  Cpu cpu = Cpu::kIntelSapphireRapids;
};

}  // namespace stepcast::nccl
