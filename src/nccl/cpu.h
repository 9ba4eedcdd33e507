#pragma once

#include <cstdint>

namespace stepcast::nccl {

// The processors that NCCL tells apart; kMixed when the nodes' vendors differ.
enum class Cpu : std::uint8_t {
  kIntelBroadwell,
  kIntelSkylake,
  kIntelSapphireRapids,
  kIntelEmeraldRapids,
  kAmd,
  kMixed,
  kArm,
  kPower9
};

constexpr bool IsIntel(Cpu cpu) { return cpu <= Cpu::kIntelEmeraldRapids; }
constexpr bool IsX86(Cpu cpu) { return cpu <= Cpu::kMixed; }

}  // namespace stepcast::nccl
