#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

// Which parameters DeepSpeed's stage 3 gathers and frees around every module, once it has learned
// the order in which a micro-batch visits them (deepspeed/runtime/zero/
// partitioned_param_coordinator.py @ 00a31c99; the order is known from the third micro-batch on).
namespace stepcast::lowering {

struct CoordinatorOptions {
  std::int64_t prefetch = 0;   // elements asked for ahead, at least: whole parameters are
  std::int64_t max_live = 0;   // elements: nothing is asked for ahead beyond
  std::int64_t max_reuse = 0;  // elements between two uses within which a parameter stays
};

class ParameterCoordinator {
 public:
  using Parameters = std::vector<int>;  // ascending

  // `visits`: the parameters of each module run of a micro-batch, in order. `elements` and
  // `persistent` (those stay gathered) are by parameter.
  ParameterCoordinator(std::vector<Parameters> visits, std::vector<std::int64_t> elements,
                       std::vector<bool> persistent, const CoordinatorOptions& options);

  void BeginMicroBatch();

  struct Fetched {
    Parameters gather{};    // needed now, not requested before
    Parameters wait{};      // needed now, on their way
    Parameters prefetch{};  // asked for ahead
  };
  // Before the next visit.
  Fetched Fetch();
  // After the visit last fetched: what is freed.
  Parameters Release();
  // After backward: what was never freed, because gradients of the module's input were not needed.
  Parameters ReleaseRest();

 private:
  enum class Status : std::uint8_t { kAway, kInFlight, kHere };
  struct Entry {
    int parameter = 0;
    std::int64_t visit = 0;
  };

  void Ask(int parameter);
  void Free(int parameter);

  const std::vector<Parameters> visits_;
  const std::vector<std::int64_t> elements_;
  const std::vector<bool> persistent_;
  const CoordinatorOptions options_;

  std::vector<Status> status_;
  std::deque<Entry> queue_;                // uses that no fetch has looked at yet
  std::vector<std::int64_t> fetched_for_;  // by parameter: the latest visit that was looked at
  std::int64_t live_ = 0;                  // elements here or in flight, persistent ones aside
  std::int64_t next_ = 0;                  // visit
};

}  // namespace stepcast::lowering
