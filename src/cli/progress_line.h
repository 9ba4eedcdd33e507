#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stepcast::cli {

// "1,234 of 20,000 combinations, 830/s, 23 s left". `known` of those done took no time; without any
// others yet there is no rate.
std::string ProgressText(std::int64_t done, std::int64_t known, std::int64_t all,
                         std::chrono::duration<double> passed);

// A line on stderr that is overwritten until the work is done. One thread at a time.
class ProgressLine {
 public:
  // Whether stderr is a terminal.
  static bool Possible();

  // The clock starts with the first call.
  void Show(std::int64_t done, std::int64_t known, std::int64_t all);
  ~ProgressLine();

 private:
  std::chrono::steady_clock::time_point begin_, next_;
  bool shown_ = false;
};

}  // namespace stepcast::cli
