#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/formats/imported_topology.h"

// The XML in which NCCL describes a machine (NCCL_TOPO_DUMP_FILE; also what NCCL_TOPO_FILE names),
// as NVIDIA/nccl, src/graph/xml.cc and topo.cc read it:
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143" ...>
//       <pci busid="0000:15:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16" ...>
//         <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330" ...>
//           <gpu dev="0" sm="90" rank="0" gdr="1">
//             <nvlink target="0000:07:00.0" count="4" tclass="0x068000"/>
//           </gpu>
//         </pci>
//         <pci busid="0000:1a:00.0" class="0x020700" ...>
//           <nic><net name="mlx5_0" dev="0" speed="400000" port="1" .../></nic>
//
// * GPUs are numbered by rank (by dev, or as they stand, where they have none), NICs by dev.
// * A bridge with one device below is a wire; a Broadcom switch below one of the same kind is part
//   of it, as NCCL has it.
// * speed is in Mbit/s. NICs slower than the fastest are left out: nodes communicate over the
//   fastest.
// * A PCIe device without speed or width has NCCL's 8 GT/s or 16 lanes.
// * CPUs of one host are all linked with each other, at NCCL's figure for their type.
// * A file made for NCCL_TOPO_FILE may have no NVLinks, since NCCL finds them itself: refused where
//   the GPU type has some, unless options.missing_nvlinks says what is there. Assumed are all of a
//   GPU's: in a node of up to four as many to each other GPU, else to one switch that stands for all.
//
// Attributes that NCCL writes and that say nothing here are passed over; others are named in the
// notes.
//
// Mistakes: xml.syntax (cut off, too, with the element that is not closed), xml.too-deep,
// topology.not-nccl (another document), topology.bad-attribute, topology.unknown-gpu (no telling
// which GPU type it is), topology.no-speed (a NIC without a speed), topology.impossible (a link of
// zero bandwidth, a GPU without a path to a NIC, a topology in several parts, two devices with one
// bus id), topology.no-nvlinks, topology.unknown-nic (options.nics names one that is not there).
namespace stepcast::formats {

Result<ImportedTopology> ParseNcclTopology(std::string_view text, const std::string& file,
                                           const ImportOptions& options);

}  // namespace stepcast::formats
