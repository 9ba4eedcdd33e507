#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/report/page.h"

// A rank's allocated memory, by category, over one step. For the .cc files of this package only.
namespace stepcast::report {

// From `start` until the next one's.
struct MemoryInstant {
  Time start;  // since the window's start
  forecast::BytesByCategory bytes{};
};

// The account over step `step` of the timeline, which ends at `end` and began at `start`. Memory
// changes in host order, and the host may be far ahead of the device, so each moment stands where
// the compute stream gets to that place of the program; what the prologue does stands where step 0
// begins. Of what happens there at one instant
// the fullest moment is kept. At most about twice `most` instants: of neighbours that are joined,
// the fullest.
std::vector<MemoryInstant> MemoryOver(const program::Program& program,
                                      const program::Timeline& timeline,
                                      const memory::Account& account, std::uint32_t step,
                                      Time start, Time end, std::size_t most);

// Stacked areas, with the device's capacity where it is near.
Chart MemoryChart(const std::vector<MemoryInstant>& instants, Time length,
                  const forecast::MemoryForecast& memory);

}  // namespace stepcast::report
