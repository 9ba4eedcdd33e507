#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast::nccl {

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

}  // namespace stepcast::nccl
