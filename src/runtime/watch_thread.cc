#include "src/runtime/watch_thread.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/program/description.h"

namespace stepcast::runtime::watching {
namespace {

// How long rank 0 waits for a cause of higher priority before it decides: two heartbeats of all
// live ranks.
constexpr std::chrono::milliseconds kMoment(400);

}  // namespace

bool CountsMore(const Cause& a, const Cause& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.rank < b.rank;
}

void Verdict::Consider(Cause cause) {
  if (!cause_) decided_at_ = std::chrono::steady_clock::now() + kMoment;
  if (cause_ && cause_->kind == Kind::kDied && cause.kind == Kind::kDied) {
    AlsoDied(std::move(cause));
  } else if (!cause_ || CountsMore(cause, *cause_)) {
    cause_ = std::move(cause);
  }
}

void Verdict::AlsoDied(Cause cause) {
  constexpr int kNamed = 4;
  if (++died_ > kNamed) return;
  if (cause.rank < cause_->rank) std::swap(cause, *cause_);
  cause_->sentence += "; " + cause.sentence;
}

std::string ToBytes(MessageKind kind) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(kind));
  return writer.Take();
}

std::string ToBytes(const Heartbeat& heartbeat) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kHeartbeat));
  writer.Number(static_cast<std::uint64_t>(heartbeat.stage));
  writer.Number(heartbeat.operations);
  writer.Number(heartbeat.step);
  writer.Number(heartbeat.instruction);
  return writer.Take();
}

Heartbeat ReadHeartbeat(messaging::ByteReader& reader) {
  Heartbeat heartbeat;
  heartbeat.stage = static_cast<Stage>(
      std::min(reader.Number(), static_cast<std::uint64_t>(Stage::kForecasting)));
  heartbeat.operations = reader.Number();
  heartbeat.step = static_cast<std::uint32_t>(reader.Number());
  heartbeat.instruction = static_cast<program::Index>(reader.Number());
  return heartbeat;
}

std::string ToBytes(const Cause& cause) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(
      cause.kind == Kind::kInterrupted ? MessageKind::kInterrupted : MessageKind::kFailed));
  writer.Number(static_cast<std::uint64_t>(cause.kind));
  writer.Number(static_cast<std::uint64_t>(cause.status));
  writer.Text(cause.sentence);
  return writer.Take();
}

int FailureStatus(std::uint64_t status) {
  return static_cast<int>(std::clamp<std::uint64_t>(status, 1, 255));
}

Cause ReadCause(messaging::ByteReader& reader, int rank) {
  Cause cause;
  cause.rank = rank;
  cause.kind =
      static_cast<Kind>(std::min(reader.Number(), static_cast<std::uint64_t>(Kind::kInterrupted)));
  cause.status = FailureStatus(reader.Number());
  cause.sentence = Printable(reader.Text());
  return cause;
}

std::string ToBytesEnd(int status) {
  messaging::ByteWriter writer;
  writer.Number(static_cast<std::uint64_t>(MessageKind::kEnd));
  writer.Number(static_cast<std::uint64_t>(status));
  return writer.Take();
}

namespace {

// The pipe that wakes the process's watch, for signal handlers; -1 if there is none.
std::atomic<int> wake_end = -1;
std::atomic<int> signal_taken = 0;
std::atomic<std::int64_t> signal_time = 0;  // of the first, ns; zero: none
std::atomic<bool> ending = false;           // the process is in BeforeExit

}  // namespace

std::string Seconds(milliseconds time) {
  if (time.count() % 1000 == 0) return fmt::format("{} s", time.count() / 1000);
  return fmt::format("{} ms", time.count());
}

WatchThread::WatchThread(std::vector<Place> places, const std::vector<int>& local,
                         const WatchOptions& options, End end)
    : places_(std::move(places)),
      options_(options),
      interval_(std::clamp(options.timeout / 10, milliseconds(20), milliseconds(250))),
      end_(std::move(end)),
      heartbeats_(places_.size()) {
  for (const int rank : local) local_.try_emplace(rank);
  std::array<int, 2> ends{};
  STEPCAST_CHECK(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0, "a pipe must be created");
  wake_read_ = ends[0];
  wake_write_ = ends[1];
}

WatchThread::~WatchThread() {
  Stop();
  ::close(wake_read_);
  ::close(wake_write_);
}

void WatchThread::SetPrograms(std::vector<const program::Program*> programs) {
  STEPCAST_CHECK(programs.size() == places_.size() && !programs_known_, "programs of all ranks");
  programs_ = std::move(programs);
  programs_known_ = true;
}

void WatchThread::Tell(int rank, const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    failures_.push_back({.kind = failure.out_of_memory ? Kind::kOutOfMemory : Kind::kFailed,
                         .rank = rank,
                         .status = 1,
                         .sentence = Named(rank, failure.message)});
  }
  Wake();
}

bool WatchThread::Notice(int signal) {
  if (ending) return true;
  const int pipe = wake_end.load();
  if (pipe < 0) return false;
  const std::int64_t now = steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t first = 0;
  if (!signal_time.compare_exchange_strong(first, now)) {
    // A signal often arrives twice, at the process and at its group, and another thread takes it.
    return now - first < kDecisionTimeout / std::chrono::nanoseconds(1);
  }
  signal_taken = signal;
  const int error = errno;  // the interrupted code must not see the handler's errno
  const char byte = 's';
  const bool written = ::write(pipe, &byte, 1) == 1;
  errno = error;
  return written;
}

void WatchThread::Begin() {
  progressed_ = steady_clock::now();
  signal_taken = 0;
  signal_time = 0;
  wake_end = wake_write_;
  thread_ = std::thread([this] { Run(); });
}

void WatchThread::Stop() {
  if (!thread_.joinable()) return;
  wake_end = -1;
  stopping_ = true;
  Wake();
  thread_.join();
}

void WatchThread::EndProcess(int status, const std::string& sentence) {
  ending = true;
  end_(status, sentence);
  BeforeExit(status);
  ::_exit(status);
}

std::string WatchThread::Named(int rank, const std::string& message) const {
  const std::string plain = fmt::format("rank {}", rank);
  const std::string on_host = fmt::format("{} on {}", plain, place(rank).host);
  for (const std::string& name : {RankOnHost(rank), on_host, plain}) {
    if (message.starts_with(name + ":") || message.starts_with(name + ",")) {
      return RankOnHost(rank) + message.substr(name.size());
    }
  }
  return fmt::format("{}: {}", RankOnHost(rank), message);
}

std::string WatchThread::Doing(int rank) const {
  const Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
  const program::Program* const program =
      programs_known_ ? programs_[static_cast<std::size_t>(rank)] : nullptr;
  switch (heartbeat.stage) {
    case Stage::kSettingUp:
      return "the rank was setting up";
    case Stage::kReporting:
      return "the rank was gathering the results";
    case Stage::kForecasting:
      return "the rank was forecasting";
    case Stage::kRunning:
      break;
  }
  if (program != nullptr && heartbeat.instruction == program::kNone)
    return "the rank was in the prologue";
  if (program == nullptr || heartbeat.instruction >= program->step.size()) {
    return fmt::format("the rank was between operations of step {}", heartbeat.step + 1);
  }
  return fmt::format("the rank was at {} in step {}",
                     program::Describe(*program, program->step[heartbeat.instruction]),
                     heartbeat.step + 1);
}

void WatchThread::TakeHeartbeat(int rank, const Heartbeat& heartbeat) {
  Heartbeat& known = heartbeats_[static_cast<std::size_t>(rank)];
  if (known.operations != heartbeat.operations || known.stage != heartbeat.stage) {
    progressed_ = steady_clock::now();
  }
  known = heartbeat;
}

void WatchThread::CheckForHang() {
  if (steady_clock::now() - progressed_ < options_.timeout) return;
  // Work after the run, such as writing a long trace, has no expected duration; neither has a
  // forecast.
  if (std::all_of(heartbeats_.begin(), heartbeats_.end(), [](const Heartbeat& heartbeat) {
        return heartbeat.stage >= Stage::kReporting;
      })) {
    return;
  }
  // The other ranks wait for the rank that has done least.
  int behind = 0;
  for (int rank = 1; rank < static_cast<int>(heartbeats_.size()); ++rank) {
    const Heartbeat& own = heartbeats_[static_cast<std::size_t>(rank)];
    const Heartbeat& least = heartbeats_[static_cast<std::size_t>(behind)];
    if (std::pair(own.stage, own.operations) < std::pair(least.stage, least.operations)) {
      behind = rank;
    }
  }
  Consider({.kind = Kind::kHangs,
            .rank = behind,
            .sentence = fmt::format("no operation finished in the last {}: {} is {}; {}",
                                    Seconds(options_.timeout), RankOnHost(behind),
                                    heartbeats_.size() == 1 ? "alone" : "the furthest behind",
                                    Doing(behind))});
}

void WatchThread::Wake() {
  const char byte = 'w';
  [[maybe_unused]] const ssize_t written = ::write(wake_write_, &byte, 1);
}

void WatchThread::Run() {
  Deadline next_heartbeat = steady_clock::now();
  Deadline running = next_heartbeat;
  for (;;) {
    const auto now = steady_clock::now();
    if (now >= next_heartbeat) {
      TakeLocalHeartbeats();
      SendHeartbeats();
      next_heartbeat = now + interval_;
    }
    if (now >= NextDecision()) Decide();
    const auto pause =
        std::chrono::ceil<milliseconds>(std::min(next_heartbeat, NextDecision()) - now);
    pollfd entry{.fd = wake_read_, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(pause.count(), 0, 1000)));
    // Somewhat less than the others' timeout, since they count from an earlier heartbeat.
    const auto awake = steady_clock::now();
    if (awake - std::exchange(running, awake) >= Silence() - 2 * interval_) woken_ = awake;
    std::array<char, 64> bytes;
    while (::read(wake_read_, bytes.data(), bytes.size()) > 0) {
    }
    if (stopping_) {
      Leave();
      return;
    }
    if (const int signal = signal_taken; signal != 0 && !std::exchange(interrupted_, true)) {
      Consider({.kind = Kind::kInterrupted,
                .rank = local_.begin()->first,
                .status = 128 + signal,
                .sentence = "interrupted"});
    }
    std::vector<Cause> failures;
    {
      const std::lock_guard lock(mutex_);
      failures.swap(failures_);
    }
    for (Cause& failure : failures) Consider(std::move(failure));
    ReceiveMessages();
  }
}

}  // namespace stepcast::runtime::watching
