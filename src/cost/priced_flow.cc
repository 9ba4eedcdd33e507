#include "src/cost/priced_flow.h"

#include <algorithm>
#include <cstdint>

namespace stepcast::cost {

Time LongerWork(Time priced, Time needed) {
  return static_cast<double>(needed.picoseconds()) >
                 static_cast<double>(priced.picoseconds()) * (1 + 1e-6)
             ? needed
             : priced;
}

Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price) {
  const double seconds = load.transfer * static_cast<double>(bytes.count());
  return LongerWork(price.work, Time::FromPicoseconds(static_cast<std::int64_t>(seconds * 1e12)));
}

double FlowShare(double busy, Bytes bytes, Time work) {
  if (work == Time()) return 0;
  return std::min(1.0, busy * static_cast<double>(bytes.count()) / work.seconds());
}

}  // namespace stepcast::cost
