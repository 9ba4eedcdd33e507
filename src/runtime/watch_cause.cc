#include "src/runtime/watch_cause.h"

#include <utility>

namespace stepcast::runtime::watching {

namespace {

// How long rank 0 waits for a cause that counts more before it decides: two heartbeats of all ranks
// that are alive.
constexpr std::chrono::milliseconds kMoment(400);

}  // namespace

bool CountsMore(const Cause& a, const Cause& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.rank < b.rank;
}

void Verdict::Consider(Cause cause) {
  if (!cause_) decided_at_ = std::chrono::steady_clock::now() + kMoment;
  if (cause_ && cause_->kind == Kind::kDied && cause.kind == Kind::kDied) {
    AlsoDied(std::move(cause));
  } else if (!cause_ || CountsMore(cause, *cause_)) {
    cause_ = std::move(cause);
  }
}

void Verdict::AlsoDied(Cause cause) {
  constexpr int kNamed = 4;
  if (++died_ > kNamed) return;
  if (cause.rank < cause_->rank) std::swap(cause, *cause_);
  cause_->sentence += "; " + cause.sentence;
}

}  // namespace stepcast::runtime::watching
