#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast {

// The network between nodes, including its software. The transport determines the time of small
// messages, even if bandwidths are equal.
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

// Returns whether message times measured on one transport are valid for another transport. True for
// equal transports, and for InfiniBand and RoCE, which use the same code in NCCL
// (src/transport/net_ib.cc of NVIDIA/nccl). Llama Team 2024 (arXiv 2407.21783, section 3.3.1)
// trained on clusters of both types, tuned "to provide equivalent performance".
constexpr bool Alike(Transport a, Transport b) {
  const auto verbs = [](Transport transport) {
    return transport == Transport::kInfiniband || transport == Transport::kRoce;
  };
  return a == b || (verbs(a) && verbs(b));
}

}  // namespace stepcast
