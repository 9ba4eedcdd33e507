#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "src/planner/search.h"

// How far `plan` has come, for people who wait.
namespace stepcast::cli {

// "12,345 of 60,000 families of plans bounded, 3 s left"; then "35 plans simulated, 1,204 may still
// be better, 40 s left". `passed`: since the present part of the work began, in which `looked_at`
// plans were looked at. `most`: the search ends after so long at the latest.
std::string SearchProgressText(const planner::SearchProgress& progress, std::int64_t looked_at,
                               std::chrono::duration<double> passed,
                               std::optional<double> most = std::nullopt);

// On stderr: of a terminal a line that is overwritten until the search is done; else whole lines,
// after 2, 4, 8 seconds and so on, unless $STEPCAST_PROGRESS is 0. A search without a limit says
// after a minute how to end it with an answer. One thread at a time.
class SearchProgressLine {
 public:
  // `within`: how many seconds the search may take; none: until it has its proof.
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
  bool screening_ = true;       // the first part
  std::int64_t looked_at_ = 0;  // when the present part began
  bool shown_ = false;
  bool said_how_to_end_ = false;
};

}  // namespace stepcast::cli
