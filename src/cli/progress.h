#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "src/planner/search.h"

namespace stepcast::cli {

// Returns a duration as text, such as "59 s", "12 min" or "3 h 20 min".
std::string TimeLeft(double seconds);

// Returns a text such as "1,234 of 20,000 combinations, 830/s, 23 s left". `done` includes `known`
// combinations that took no time, which the rate excludes. The text contains no rate if all
// combinations are known.
std::string ProgressText(std::int64_t done, std::int64_t known, std::int64_t all,
                         std::chrono::duration<double> passed);

// A progress line on stderr that is overwritten until the work is done. Only one thread at a time
// may use this object.
class ProgressLine {
 public:
  // Returns whether stderr is a terminal. A progress line requires a terminal.
  static bool Possible();

  // Shows the progress. The first call starts the clock.
  void Show(std::int64_t done, std::int64_t known, std::int64_t all);
  ~ProgressLine();

 private:
  std::chrono::steady_clock::time_point begin_, next_;
  bool shown_ = false;
};

// Prints to `to` what a command is doing: first after `patience`, then whenever the elapsed time
// has doubled (by default, after 2, 4, 8 seconds and so on). Prints complete lines. If
// $STEPCAST_PROGRESS is 0, prints nothing, so that transcripts do not depend on the machine's
// speed.
class WorkNotice {
 public:
  // Starts the timer. `work` describes the work, such as "simulating a step of scenario.yaml".
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
  std::thread thread_;  // not joinable if nothing is to be printed
};

// Shows the progress of `plan`.

// Returns the progress of a search as text. First phase: "bounds computed for 12,345 of 60,000
// families of plans, 3 s left". Second phase: "35 plans simulated, 1,204 plans may still be better,
// 40 s left". `passed` is the time since the current phase began, `looked_at` the number of plans
// examined since then, and `most` the time limit of the search in seconds.
std::string SearchProgressText(const planner::SearchProgress& progress, std::int64_t looked_at,
                               std::chrono::duration<double> passed,
                               std::optional<double> most = std::nullopt);

// Shows the progress of a search on stderr. On a terminal, this object overwrites one line.
// Otherwise, it prints complete lines after 2, 4, 8 seconds and so on, unless $STEPCAST_PROGRESS is
// 0. After a minute, a search without a time limit prints how to stop with an answer. Only one
// thread at a time may use this object.
class SearchProgressLine {
 public:
  // `within` is the time limit of the search in seconds. Without `within`, the search runs until
  // its proof is complete.
  explicit SearchProgressLine(std::optional<double> within);
  SearchProgressLine(const SearchProgressLine&) = delete;
  SearchProgressLine& operator=(const SearchProgressLine&) = delete;
  ~SearchProgressLine();

  void Show(const planner::SearchProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const bool silent_;
  const std::optional<double> within_;
  const Clock::time_point begin_;
  Clock::time_point next_, part_;
  bool screening_ = true;       // whether the search is in its first phase
  std::int64_t looked_at_ = 0;  // plans examined when the current phase began
  bool shown_ = false;
  bool said_how_to_end_ = false;
};

// Measures the wall-clock time since construction, for the key `run` of JSON documents.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace stepcast::cli
