#include "src/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/report/table.h"

namespace stepcast::cli {

std::string TimeLeft(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds < kLongest)) return "years";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  const std::int64_t minutes = (whole + 59) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string ProgressText(std::int64_t done, std::int64_t known, std::int64_t all,
                         std::chrono::duration<double> passed) {
  std::string text = fmt::format("{} of {} combination{}", report::Grouped(done),
                                 report::Grouped(all), all == 1 ? "" : "s");
  const auto worked_out = static_cast<double>(done - known);
  if (worked_out < 1 || passed.count() <= 0) return text;
  const double rate = worked_out / passed.count();
  return text + fmt::format(", {}/s, {} left", report::Decimal(rate, rate < 10 ? 1 : 0),
                            TimeLeft(static_cast<double>(all - done) / rate));
}

StatusLine::StatusLine() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

StatusLine::~StatusLine() {
  if (shown_) Erase();
}

void StatusLine::Show(const std::string& text) {
  // Carriage return, text, erase the rest of the line.
  fmt::print(stderr, "{}{}{}", on_terminal_ ? "\r" : "stepcast: ", text,
             on_terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

void StatusLine::Erase() const {
  if (on_terminal_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::Show(std::int64_t done, std::int64_t known, std::int64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (begin_ == std::chrono::steady_clock::time_point()) begin_ = now;
  if (now < next_) return;
  constexpr std::chrono::milliseconds kPause(100);
  next_ = now + kPause;
  line_.Show(ProgressText(done, known, all, now - begin_));
}

WorkNotice::WorkNotice(std::string work, std::chrono::milliseconds patience, std::FILE* to)
    : work_(std::move(work)), to_(to) {
  const char* wanted = std::getenv("STEPCAST_PROGRESS");
  if (wanted != nullptr && std::string_view(wanted) == "0") return;
  try {
    thread_ = std::thread([this, patience] { Wait(patience); });
  } catch (const std::system_error&) {
    // If no thread can be started, the work continues without messages.
  }
}

WorkNotice::~WorkNotice() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void WorkNotice::Wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds passed{};
  for (std::chrono::milliseconds next = patience;; next = passed) {
    if (ends_.wait_for(lock, next, [&] { return ended_; })) return;
    passed += next;
    const double seconds = std::chrono::duration<double>(passed).count();
    fmt::print(to_, "stepcast: {} ({} s so far)\n", work_, report::Decimal(seconds, 0));
    std::fflush(to_);
  }
}

using planner::SearchProgress;
using report::Grouped;

namespace {

std::string SearchProgressText(const SearchProgress& progress) {
  if (progress.screened < progress.families) {
    return fmt::format("bounds computed for {} of {} families of plans", Grouped(progress.screened),
                       Grouped(progress.families));
  }
  const std::string text = fmt::format("{} {} simulated", Grouped(progress.simulated),
                                       progress.simulated == 1 ? "plan" : "plans");
  if (progress.open < 0) return text + ", looking for a first plan in each group";
  return text + fmt::format(", {} plans may still be better", Grouped(progress.open));
}

}  // namespace

SearchProgressLine::SearchProgressLine(std::optional<double> within)
    : silent_([] {
        const char* wanted = std::getenv("STEPCAST_PROGRESS");
        return wanted != nullptr && std::string_view(wanted) == "0";
      }()),
      within_(within),
      begin_(Clock::now()),
      next_(begin_) {
  constexpr std::chrono::seconds kPatience(2);
  if (!line_.on_terminal()) next_ += kPatience;
}

void SearchProgressLine::Show(const SearchProgress& progress) {
  const Clock::time_point now = Clock::now();
  const bool screening = progress.screened < progress.families;
  const std::int64_t done = screening ? progress.screened : progress.looked_at;
  if (!phase_ || phase_->screening != screening) phase_ = Phase{screening, now, done};
  if (silent_ || now < next_) return;
  const std::chrono::duration<double> so_far = now - begin_;
  constexpr double kMinute = 60;
  constexpr double kLeastPassed = 0.5;  // seconds: the first plans of a phase fill caches
  if (!within_ && !said_how_to_end_ && so_far.count() > kMinute) {
    said_how_to_end_ = true;
    line_.Erase();
    fmt::print(stderr,
               "stepcast: press Ctrl-C to stop the search and print the best plan so far; to limit "
               "the time, add --within 2min\n");
  }
  constexpr std::chrono::milliseconds kPause(100);
  next_ = now + (line_.on_terminal() ? kPause : now - begin_);
  auto left = within_ ? std::optional(*within_ - so_far.count()) : std::nullopt;
  const std::chrono::duration<double> passed = now - phase_->begin;
  const std::int64_t open = screening ? progress.families - progress.screened : progress.open;
  if (open >= 0 && done > phase_->done && passed.count() >= kLeastPassed) {
    const double needed =
        passed.count() * static_cast<double>(open) / static_cast<double>(done - phase_->done);
    left = std::min(needed, left.value_or(needed));
  }
  const std::string text = SearchProgressText(progress);
  line_.Show(left ? fmt::format("{}, {} left", text, TimeLeft(std::max(0.0, *left))) : text);
}

}  // namespace stepcast::cli
