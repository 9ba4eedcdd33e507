#pragma once

#include <array>
#include <string>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/base/rates.h"

namespace stepcast::topology {

// A GPU's data sheet: what the device is, not what was achieved on it (that is calibration).
// Read from topologies/gpus/*.yaml.
struct Gpu {
  std::string name;  // "h100-sxm"; also names its default calibration profile
  Bytes memory;
  Bandwidth memory_bandwidth;
  std::array<FlopRate, kDataTypeCount>
      peak;  // dense, indexed by DataType; zero where the device cannot
  int multiprocessors = 0;
  int power_limit = 0;         // watts that the board may draw; 0: not stated
  int compute_capability = 0;  // of CUDA, 90 is 9.0; 0: not a CUDA device

  FlopRate PeakOf(DataType type) const { return peak[static_cast<std::size_t>(type)]; }
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

}  // namespace stepcast::topology
