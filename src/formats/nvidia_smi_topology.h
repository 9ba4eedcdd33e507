#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/formats/imported_topology.h"

// The output of `nvidia-smi topo -m`: a matrix of GPUs and NICs with the class of the route between
// each two (NV18, PIX, PXB, PHB, NODE, SYS), CPU and NUMA affinity of the GPUs, and a legend that
// names the NICs. Tabs, blanks or bars part the columns; terminals' escape sequences are passed
// over, and so is what stands before lines that were pasted into comments ("> ", "# "); old
// releases print the NICs' own names in the matrix.
//
//   PIX, PXB   one PCIe switch (or a tree of them, drawn as one)
//   PHB, NODE  one CPU
//   SYS        different CPUs, all linked with each other
//   NV#        # NVLinks: directly, unless all of a GPU's links together are more than it has;
//              then they lead to NVSwitches, drawn as one
//
// Where a NIC shares a PCIe switch with a GPU, those that share one with none are left out: they
// are for storage and management. options.nics says which count instead, by the names of the matrix
// or its legend.
//
// It tells neither the GPU type nor any speed, so options.gpu is required, and options.nic_speed
// where there are NICs.
//
// Mistakes: topology.not-smi (no matrix), topology.bad-matrix (a row of wrong length, an unknown
// class, two halves that differ), topology.unknown-gpu, topology.no-speed, topology.unknown-nic.
namespace stepcast::formats {

Result<ImportedTopology> ParseNvidiaSmiTopology(std::string_view text, const std::string& file,
                                                const ImportOptions& options);

}  // namespace stepcast::formats
