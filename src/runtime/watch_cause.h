#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

// Why a run ends: what ranks report, and which of it counts.
namespace stepcast::runtime::watching {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// Why a run may end; what comes first in this list counts most.
enum class Kind : std::uint8_t { kOutOfMemory, kDied, kFailed, kSilent, kHangs, kInterrupted };

struct Cause {
  Kind kind = Kind::kFailed;
  int rank = 0;
  int status = 1;
  std::string sentence;
};

bool CountsMore(const Cause& a, const Cause& b);

// Collects causes until it is decided with which the run ends.
class Verdict {
 public:
  void Consider(Cause cause);
  bool open() const { return cause_.has_value(); }
  Deadline decided_at() const { return decided_at_; }
  // Requires open().
  const Cause& cause() const { return *cause_; }

 private:
  // Open MPI ends ranks whose neighbour died in the same moment; which was the first does not show.
  void AlsoDied(Cause cause);

  std::optional<Cause> cause_;
  int died_ = 1;
  Deadline decided_at_ = kNever;
};

}  // namespace stepcast::runtime::watching
