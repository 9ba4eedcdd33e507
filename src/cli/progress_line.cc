#include "src/cli/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/report/number_text.h"

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

bool ProgressLine::Possible() { return ::isatty(STDERR_FILENO) == 1; }

void ProgressLine::Show(std::int64_t done, std::int64_t known, std::int64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (begin_ == std::chrono::steady_clock::time_point()) begin_ = now;
  if (now < next_) return;
  constexpr std::chrono::milliseconds kPause(100);
  next_ = now + kPause;
  // Carriage return, text, erase the rest of the line.
  fmt::print(stderr, "\r{}\033[K", ProgressText(done, known, all, now - begin_));
  std::fflush(stderr);
  shown_ = true;
}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

WorkNotice::WorkNotice(std::string work, std::chrono::milliseconds patience, std::FILE* to)
    : work_(std::move(work)), to_(to) {
  const char* wanted = std::getenv("STEPCAST_PROGRESS");
  if (wanted != nullptr && std::string_view(wanted) == "0") return;
  try {
    thread_ = std::thread([this, patience] { Wait(patience); });
  } catch (const std::system_error&) {
    // Without a thread to spare the work goes on without notice.
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
    fmt::print(to_, "stepcast: {}, for {} s so far\n", work_, report::Decimal(seconds, 0));
    std::fflush(to_);
  }
}

}  // namespace stepcast::cli
