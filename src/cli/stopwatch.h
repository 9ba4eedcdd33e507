#pragma once

#include <chrono>

namespace stepcast::cli {

// Wall-clock time since its making: the `run` key of the JSON documents, and nothing else.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace stepcast::cli
