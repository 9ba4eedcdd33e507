#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast {

// The network between nodes, including its software. At equal bandwidth, the transport determines
// the time of small messages.
enum class Transport : std::uint8_t { kInfiniband, kRoce, kEfa, kOmniPath, kSlingshot, kSockets };
inline constexpr Transport kTransports[] = {Transport::kInfiniband, Transport::kRoce,
                                            Transport::kEfa,        Transport::kOmniPath,
                                            Transport::kSlingshot,  Transport::kSockets};

// Returns the transport's name in files: infiniband, roce, efa, omni-path, slingshot or sockets
// (TCP through the host's memory, without RDMA).
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

// Returns whether measured message times of one transport are valid for the other transport. This
// is true for equal transports, and for InfiniBand and RoCE, which share NCCL's code
// (src/transport/net_ib.cc of NVIDIA/nccl). Llama Team 2024 (arXiv 2407.21783, section 3.3.1)
// trained on clusters of both types, which they tuned "to provide equivalent performance".
constexpr bool Alike(Transport a, Transport b) {
  const auto verbs = [](Transport transport) {
    return transport == Transport::kInfiniband || transport == Transport::kRoce;
  };
  return a == b || (verbs(a) && verbs(b));
}

}  // namespace stepcast
