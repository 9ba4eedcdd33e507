#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast {

// A transport is the network between nodes together with the software that drives it. It decides
// how long a small message takes, on links of any bandwidth.
enum class Transport : std::uint8_t { kInfiniband, kRoce, kEfa, kOmniPath, kSlingshot, kSockets };
inline constexpr Transport kTransports[] = {Transport::kInfiniband, Transport::kRoce,
                                            Transport::kEfa,        Transport::kOmniPath,
                                            Transport::kSlingshot,  Transport::kSockets};

// The names of files: infiniband, roce, efa, omni-path, slingshot, sockets (TCP through the host's
// memory, where there is no RDMA).
constexpr std::string_view Name(Transport transport) {
  switch (transport) {
    case Transport::kInfiniband:
      return "infiniband";
    case Transport::kRoce:
      return "roce";
    case Transport::kEfa:
      return "efa";
    case Transport::kOmniPath:
      return "omni-path";
    case Transport::kSlingshot:
      return "slingshot";
    case Transport::kSockets:
      return "sockets";
  }
  return "";
}

// Whether what was measured over one says how long messages take over the other: where they are the
// same, and between InfiniBand and RoCE, which NCCL drives by the same code
// (src/transport/net_ib.cc of NVIDIA/nccl, verbs). Llama Team 2024 (arXiv 2407.21783,
// section 3.3.1) trained on clusters of both, which they tuned "to provide equivalent performance".
constexpr bool Alike(Transport a, Transport b) {
  const auto verbs = [](Transport transport) {
    return transport == Transport::kInfiniband || transport == Transport::kRoce;
  };
  return a == b || (verbs(a) && verbs(b));
}

}  // namespace stepcast
