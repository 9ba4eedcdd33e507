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
// combinations that took no time. The rate excludes these combinations. The text contains no rate
// if all combinations are known.
std::string ProgressText(std::int64_t done, std::int64_t known, std::int64_t all,
                         std::chrono::duration<double> passed);

// A line of progress on stderr. On a terminal, each text overwrites the last one, and the line is
// erased at the end. Otherwise, each text is a complete line. Only one thread at a time may use
// this object.
class StatusLine {
 public:
  StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine();

  bool on_terminal() const { return on_terminal_; }
  void Show(const std::string& text);
  // Erases the line of a terminal, before other output.
  void Erase() const;

 private:
  const bool on_terminal_;
  bool shown_ = false;
};

// The progress of a sweep, on a terminal only. Only one thread at a time may use this object.
class ProgressLine {
 public:
  bool possible() const { return line_.on_terminal(); }

  // Shows the progress. The first call starts the clock.
  void Show(std::int64_t done, std::int64_t known, std::int64_t all);

 private:
  StatusLine line_;
  std::chrono::steady_clock::time_point begin_, next_;
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

// Shows the progress of a search on stderr, and an estimate of the time left. First phase: "bounds
// computed for 12,345 of 60,000 families of plans, 3 s left". Second phase: "35 plans simulated,
// 1,204 plans may still be better, 40 s left". On a terminal, this object overwrites one line.
// Otherwise, it prints complete lines after 2, 4, 8 seconds and so on, unless $STEPCAST_PROGRESS is
// 0. After a minute, a search without a time limit prints how to stop with an answer. Only one
// thread at a time may use this object.
class SearchProgressLine {
 public:
  // `within` is the time limit of the search in seconds. Without `within`, the search runs until
  // its proof is complete.
  explicit SearchProgressLine(std::optional<double> within);

  void Show(const planner::SearchProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  StatusLine line_;
  const bool silent_;
  const std::optional<double> within_;
  const Clock::time_point begin_;
  Clock::time_point next_;
  struct Phase {
    bool screening = true;  // whether this is the first phase
    Clock::time_point begin;
    std::int64_t done = 0;  // families, or in the second phase plans, examined before the phase
  };
  std::optional<Phase> phase_;  // none before the first report
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
