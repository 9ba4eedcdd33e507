#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace stepcast::cli {

// "59 s", "12 min", "3 h 20 min".
std::string TimeLeft(double seconds);

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

// Says what a command is doing, on `to`, once that takes longer than `patience`, and again each
// time as long has passed as before: after 2, 4, 8 seconds. Whole lines, for logs as well as
// terminals; nothing where $STEPCAST_PROGRESS is 0, because transcripts must not depend on the
// machine's speed.
class WorkNotice {
 public:
  // "simulating a step of scenario.yaml".
  explicit WorkNotice(std::string work,
                      std::chrono::milliseconds patience = std::chrono::seconds(2),
                      std::FILE* to = stderr);
  WorkNotice(const WorkNotice&) = delete;
  WorkNotice& operator=(const WorkNotice&) = delete;
  ~WorkNotice();

 private:
  void Wait(std::chrono::milliseconds patience);

  const std::string work_;
  std::FILE* const to_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;  // under mutex_
  std::thread thread_;  // not joinable: nothing is to be said
};

}  // namespace stepcast::cli
