#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast::nccl {

// The GPU generations that NCCL's tables distinguish. A communicator uses the row of its oldest
// GPU.
enum class Generation : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// Returns the generation of a compute capability as NCCL counts generations. 90 means capability
// 9.0.
constexpr Generation GenerationOf(int compute_capability) {
  if (compute_capability >= 100) return Generation::kBlackwell;
  if (compute_capability >= 90) return Generation::kHopper;
  if (compute_capability >= 80) return Generation::kAmpere;
  return Generation::kVolta;
}

// The NCCL releases whose tables are known. Each stands for the last patch release that was read:
// 2.21.5, 2.23.4, 2.27.7, 2.28.9 and 2.30.7. They are ordered: kV223 < kV227.
enum class Version : std::uint8_t { kV221, kV223, kV227, kV228, kV230 };

inline constexpr std::array kVersions = {Version::kV221, Version::kV223, Version::kV227,
                                         Version::kV228, Version::kV230};

// "2.27"
std::string_view Name(Version version);

// Returns the newest known release that is not newer than `text` ("2.27", "2.27.3"). 2.26 counts as
// 2.23. None if the text is not a version, or if it is older than all known releases.
std::optional<Version> VersionFromName(std::string_view text);

// The processors that NCCL distinguishes. kMixed: the nodes have processors of different vendors.
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
