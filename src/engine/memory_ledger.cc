#include "src/engine/memory_ledger.h"

#include <algorithm>

#include "src/base/check.h"

namespace stepcast::engine {

void MemoryLedger::Allocate(int category, Bytes size) {
  STEPCAST_CHECK(size >= Bytes(0), "sizes are not negative");
  in_use_[static_cast<std::size_t>(category)] += size;
  total_ += size;
  if (total_ <= peak_) return;
  peak_ = total_;
  std::copy(in_use_.begin(), in_use_.end(), at_peak_.begin());
}

void MemoryLedger::Release(int category, Bytes size) {
  Bytes& in_use = in_use_[static_cast<std::size_t>(category)];
  STEPCAST_CHECK(size >= Bytes(0) && size <= in_use, "only what is in use can be released");
  in_use -= size;
  total_ -= size;
}

}  // namespace stepcast::engine
