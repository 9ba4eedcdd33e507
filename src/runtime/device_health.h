#pragma once

#include <string>
#include <vector>

namespace stepcast::runtime {

// A device's clock, power and temperature at one point in time.
struct DeviceHealth {
  int clock_mhz = 0;  // clock of the multiprocessors
  int watts = 0;      // power drawn
  int limit_watts = 0;
  int celsius = 0;
  std::vector<std::string> slowed_by;  // "power limit", "temperature", "power brake"
};

}  // namespace stepcast::runtime
