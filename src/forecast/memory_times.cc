#include "src/forecast/memory_times.h"

#include <algorithm>

namespace stepcast::forecast {

bool MemoryTimes::OverAt(Time time) const {
  const std::size_t count = step_segments();
  for (std::size_t s = count; s-- > 0;) {
    const simulate::Segment& segment = schedule->segments[schedule->prologue_segments + s];
    std::uint32_t last = segment.first_item + segment.item_count;
    while (last > segment.first_item && schedule->host_items[last - 1].is_task) --last;
    if (last == segment.first_item) continue;
    const Time begin = segments[(steps - 1) * count + s];
    if (begin + schedule->host_items[last - 1].begin > time) return false;
    break;
  }
  return std::all_of(ends.begin(), ends.end(), [time](Time end) { return end <= time; });
}

program::Timeline MemoryTimes::Changes() const {
  program::Timeline timeline;
  timeline.step_ends.assign(step_ends.begin(), step_ends.end());
  const auto of_step = std::span(schedule->segments).subspan(schedule->prologue_segments);
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::size_t s = 0; s < of_step.size(); ++s) {
      const Time begin = segments[step * of_step.size() + s];
      for (std::uint32_t i = 0; i < of_step[s].item_count; ++i) {
        const simulate::HostItem& item = schedule->host_items[of_step[s].first_item + i];
        if (item.is_task) continue;
        timeline.memory.push_back({item.instruction, step, begin + item.begin});
      }
    }
  }
  return timeline;
}

}  // namespace stepcast::forecast
