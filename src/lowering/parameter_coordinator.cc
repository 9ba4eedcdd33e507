#include "src/lowering/parameter_coordinator.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace stepcast::lowering {

ParameterCoordinator::ParameterCoordinator(std::vector<Parameters> visits,
                                           std::vector<std::int64_t> elements,
                                           std::vector<bool> persistent,
                                           const CoordinatorOptions& options)
    : visits_(std::move(visits)),
      elements_(std::move(elements)),
      persistent_(std::move(persistent)),
      options_(options),
      status_(elements_.size(), Status::kAway) {
  for (std::size_t p = 0; p < status_.size(); ++p) {
    if (persistent_[p]) status_[p] = Status::kHere;
  }
}

void ParameterCoordinator::BeginMicroBatch() {
  queue_.clear();
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    for (const int p : visits_[v]) queue_.push_back({p, static_cast<std::int64_t>(v)});
  }
  fetched_for_.assign(elements_.size(), -1);
  live_ = 0;
  next_ = 0;
}

void ParameterCoordinator::Ask(int parameter) {
  status_[parameter] = Status::kInFlight;
  live_ += elements_[parameter];
}

void ParameterCoordinator::Free(int parameter) {
  status_[parameter] = Status::kAway;
  live_ -= elements_[parameter];
}

ParameterCoordinator::Fetched ParameterCoordinator::Fetch() {
  STEPCAST_CHECK(next_ < static_cast<std::int64_t>(visits_.size()), "an unknown visit");
  const Parameters& needed = visits_[next_];
  Fetched fetched;
  std::size_t unseen = 0;
  for (const int p : needed) {
    if (status_[p] == Status::kAway) {
      Ask(p);
      fetched.gather.push_back(p);
    }
    if (status_[p] == Status::kInFlight) {
      status_[p] = Status::kHere;
      fetched.wait.push_back(p);
    }
    if (fetched_for_[p] < next_) ++unseen;
  }
  // What this visit needs was looked at by an earlier prefetch, or stands first.
  for (; unseen > 0; --unseen) {
    STEPCAST_CHECK(!queue_.empty(), "every use stands in the queue");
    fetched_for_[queue_.front().parameter] = queue_.front().visit;
    queue_.pop_front();
  }
  const std::int64_t most = std::min(options_.max_live - live_, options_.prefetch);
  std::int64_t asked = 0;
  while (!queue_.empty() && asked < most) {
    const Entry entry = queue_.front();
    queue_.pop_front();
    fetched_for_[entry.parameter] = std::max(fetched_for_[entry.parameter], entry.visit);
    if (status_[entry.parameter] != Status::kAway) continue;
    Ask(entry.parameter);
    fetched.prefetch.push_back(entry.parameter);
    asked += elements_[entry.parameter];
  }
  std::sort(fetched.prefetch.begin(), fetched.prefetch.end());
  ++next_;
  return fetched;
}

ParameterCoordinator::Parameters ParameterCoordinator::Release() {
  Parameters released;
  for (const int p : visits_[next_ - 1]) {
    // A later use that prefetch has passed by because the parameter was here.
    if (!persistent_[p] && fetched_for_[p] <= next_) released.push_back(p);
  }
  std::int64_t distance = 0;
  for (auto visit = static_cast<std::size_t>(next_);
       visit < visits_.size() && distance < options_.max_reuse && !released.empty(); ++visit) {
    for (const int p : visits_[visit]) {
      released.erase(std::remove(released.begin(), released.end(), p), released.end());
      distance += elements_[p];
    }
  }
  std::erase_if(released, [this](int p) { return status_[p] != Status::kHere; });
  for (const int p : released) Free(p);
  return released;
}

ParameterCoordinator::Parameters ParameterCoordinator::ReleaseRest() {
  Parameters released;
  for (std::size_t p = 0; p < status_.size(); ++p) {
    STEPCAST_CHECK(status_[p] != Status::kInFlight, "nothing is asked for that no visit needs");
    if (status_[p] != Status::kHere || persistent_[p]) continue;
    released.push_back(static_cast<int>(p));
    Free(static_cast<int>(p));
  }
  return released;
}

}  // namespace stepcast::lowering
