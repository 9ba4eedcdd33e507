#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast::nccl {

// The GPU generations in NCCL's tables. A communicator uses the row of its oldest GPU.
enum class Generation : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// Returns NCCL's generation for a compute capability (90 means 9.0).
constexpr Generation GenerationOf(int compute_capability) {
  if (compute_capability >= 100) return Generation::kBlackwell;
  if (compute_capability >= 90) return Generation::kHopper;
  if (compute_capability >= 80) return Generation::kAmpere;
  return Generation::kVolta;
}

// The NCCL releases with known tables, in ascending order. The tables are from patch releases
// 2.21.5, 2.23.4, 2.27.7, 2.28.9 and 2.30.7.
enum class Version : std::uint8_t { kV221, kV223, kV227, kV228, kV230 };

inline constexpr std::array kVersions = {Version::kV221, Version::kV223, Version::kV227,
                                         Version::kV228, Version::kV230};

// Returns the version as text, such as "2.27".
std::string_view Name(Version version);

// Returns the newest known release that is not newer than `text` ("2.27", "2.27.3"). For example,
// "2.26" returns 2.23. None if the text is not a version, or is older than all known releases.
std::optional<Version> VersionFromName(std::string_view text);

// The CPU types that NCCL distinguishes. kMixed: CPUs of different vendors.
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
