#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "src/lowering/program_builder.h"

namespace stepcast::lowering {

// The host waits for the event that was recorded three records ago: at most so many are open
// (DeepSpeed's stage 3, queues of events behind gathers and reductions).
class Backpressure {
 public:
  void AddEvents(ProgramBuilder& builder, const std::string& name) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      events_[i] = builder.AddEvent(name + " " + std::to_string(i));
    }
  }
  void Wait(ProgramBuilder& builder) const {
    if (count_ > kOpen) builder.HostWait(events_[(count_ - kOpen - 1) % events_.size()]);
  }
  void Record(ProgramBuilder& builder, StreamId stream) {
    builder.Record(stream, events_[count_++ % events_.size()]);
  }

 private:
  static constexpr std::size_t kOpen = 2;
  std::array<Index, kOpen + 2> events_{};
  std::size_t count_ = 0;
};

}  // namespace stepcast::lowering
