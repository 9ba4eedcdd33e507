#pragma once

#include <array>
#include <string>
#include <string_view>

#include "src/topology/node_type.h"
#include "tl/expected.hpp"

// Device sets in the syntax of topology files and drawings. A kind alone means all devices of that
// kind. Otherwise the kind is followed by indices and inclusive ranges:
//  gpu   gpu[3]   nvswitch[0, 3]   gpu[0..3]   nic[0, 4..7]
namespace stepcast::topology {

struct DeviceSetError {
  std::string message;
  std::string hint;
};

// Parses `text` for a node with `devices` devices of each kind. Fails on a device that does not
// exist or appears twice.
tl::expected<DeviceSet, DeviceSetError> ParseDeviceSet(
    std::string_view text, const std::array<int, kNodeDeviceKinds>& devices);

// Text that parses back to the same set, with ranges merged: "gpu[0..7]".
std::string Format(const DeviceSet& set);

}  // namespace stepcast::topology
