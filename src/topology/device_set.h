#pragma once

#include <array>
#include <string>
#include <string_view>

#include "src/topology/node_type.h"
#include "tl/expected.hpp"

// Device sets as topology files and drawings write them: a kind alone means all of that kind, or
// it is followed by indices and ranges, both ends included:
//   gpu   gpu[3]   nvswitch[0, 3]   gpu[0..3]   nic[0, 4..7]
namespace stepcast::topology {

struct DeviceSetError {
  std::string message;
  std::string hint;
};

// The set that `text` names in a node with `devices` of each kind. Only devices that exist, none
// twice.
tl::expected<DeviceSet, DeviceSetError> ParseDeviceSet(
    std::string_view text, const std::array<int, kNodeDeviceKinds>& devices);

// Text that reads back to the same set, ranges drawn together: "gpu[0..7]".
std::string Format(const DeviceSet& set);

}  // namespace stepcast::topology
