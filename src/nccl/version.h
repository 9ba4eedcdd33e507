#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast::nccl {

// The rows of NCCL's tables that depend on the GPU. A communicator takes the row of its oldest GPU.
enum class Generation : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// Compute capability as NCCL counts it: 90 is 9.0.
constexpr Generation GenerationOf(int compute_capability) {
  if (compute_capability >= 100) return Generation::kBlackwell;
  if (compute_capability >= 90) return Generation::kHopper;
  if (compute_capability >= 80) return Generation::kAmpere;
  return Generation::kVolta;
}

// The releases whose tables are known, each by the last of its patch releases that was read:
// 2.21.5, 2.23.4, 2.27.7, 2.28.9 and 2.30.7. They can be compared: kV223 < kV227.
enum class Version : std::uint8_t { kV221, kV223, kV227, kV228, kV230 };

inline constexpr std::array kVersions = {Version::kV221, Version::kV223, Version::kV227,
                                         Version::kV228, Version::kV230};

// "2.27"
std::string_view Name(Version version);

// The newest known release that is not newer than `text` ("2.27", "2.27.3"): 2.26 behaves as 2.23.
// None when the text is no version, or older than all that are known.
std::optional<Version> VersionFromName(std::string_view text);

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
