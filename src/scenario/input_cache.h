#pragma once

#include <memory>

namespace stepcast::scenario {

// Inputs that several scenarios use, read and built once: documents, models, clusters, GPUs and
// calibration profiles. After the first scenario of a file, another variant of it loads in a small
// fraction of a millisecond. Thread-safe.
class InputCache {
 public:
  InputCache();
  ~InputCache();
  InputCache(const InputCache&) = delete;
  InputCache& operator=(const InputCache&) = delete;

  struct Contents;
  Contents& contents() { return *contents_; }

 private:
  std::unique_ptr<Contents> contents_;
};

}  // namespace stepcast::scenario
