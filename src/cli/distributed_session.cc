#include "src/cli/distributed_session.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/base/text_lines.h"
#include "src/base/time.h"
#include "src/messaging/byte_stream.h"
#include "src/report/output_file.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::cli {

using runtime::Attempt;
using runtime::Watch;

namespace {

Diagnostic WrongOption(const char* code, const char* option, std::string message,
                       std::string hint) {
  return {code, {option, 0, 0}, std::move(message), std::move(hint)};
}

// The status sent by another rank; failed if it is invalid.
ExitStatus StatusOf(std::uint64_t status) {
  return status <= kMayNotFit ? static_cast<ExitStatus>(status) : kFailed;
}
ExitStatus StatusOf(const std::string& text) {
  std::uint64_t status = kFailed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  return error == std::errc() ? StatusOf(status) : kFailed;
}

// If ranks could not run, the status is a failure, whatever another rank sends.
ExitStatus FailureOf(ExitStatus status) { return status == kDone ? kFailed : status; }

}  // namespace

void SayAtTheEnd(int /*status*/, const std::string& sentence) {
  SignalsHeldBack::LetFinish();
  report::RemoveUnfinishedFiles();
  if (sentence.empty()) return;
  Say(sentence);
  SayWhatIsKept();
}

void Say(const std::string& sentence) {
  WriteAll(STDERR_FILENO, fmt::format("stepcast: {}\n", Printable(sentence)));
}

Result<std::chrono::milliseconds> ReadTimeout(const std::string& text) {
  const auto time = ParseTime(text);
  if (!time) {
    return tl::unexpected(Diagnostics{
        WrongOption("command.bad-quantity", "--timeout", time.error().message, time.error().hint)});
  }
  if (*time < Milliseconds(100)) {
    return tl::unexpected(Diagnostics{WrongOption(
        "command.bad-quantity", "--timeout",
        fmt::format("the time must be at least 100 ms: '{}'", text),
        "write a longer time: the run ends if any operation takes longer than this time")});
  }
  return std::chrono::milliseconds(time->picoseconds() / 1'000'000'000);
}

template <typename T>
T DistributedSession::OrFail(Attempt<T> attempt) {
  if (!attempt) watch_->Fail(rank(), attempt.error());
  if constexpr (!std::is_void_v<T>) return std::move(*attempt);
}

Attempt<void> DistributedSession::StartWatch(const runtime::WatchOptions& options) {
  auto hosts = job_->Gather(job_->place().host);
  if (!hosts) return tl::unexpected(hosts.error());
  messaging::ByteWriter writer;
  for (const std::string& host : *hosts) writer.Text(host);
  const auto known = job_->Broadcast(writer.Take());
  if (!known) return tl::unexpected(known.error());
  messaging::ByteReader reader(*known);
  std::vector<runtime::Place> places;
  for (int rank = 0; rank < job_->place().ranks; ++rank) {
    places.push_back(
        {.rank = rank, .ranks = job_->place().ranks, .host = Printable(reader.Text())});
  }
  auto mailbox = runtime::OpenMpiMailbox();
  if (!mailbox) return tl::unexpected(mailbox.error());
  watch_ = Watch::OverProcesses(places, rank(), *std::move(mailbox), options, SayAtTheEnd);
  return {};
}

void DistributedSession::SetPrograms(std::vector<program::Program> programs,
                                     const std::vector<std::size_t>& program_of_rank) {
  programs_ = std::move(programs);
  std::vector<const program::Program*> of_ranks;
  for (const std::size_t index : program_of_rank) of_ranks.push_back(&programs_[index]);
  watch_->SetPrograms(std::move(of_ranks));
}

std::optional<Outcome> DistributedSession::Agree(const std::optional<Outcome>& own) {
  messaging::ByteWriter writer;
  writer.Number(own ? 1 : 0);
  writer.Number(own ? static_cast<std::uint64_t>(own->status) : 0);
  writer.Text(own ? own->messages : "");
  const auto all = OrFail(job_->Gather(writer.Take()));
  std::optional<Outcome> agreed;
  for (std::size_t rank = 0; rank < all.size() && !agreed; ++rank) {
    messaging::ByteReader reader(all[rank]);
    if (reader.Number() == 0) continue;
    agreed.emplace();
    agreed->status = FailureOf(StatusOf(reader.Number()));
    agreed->messages =
        (rank == 0 ? "" : fmt::format("rank {}: ", rank)) + PrintableLines(reader.Text());
  }
  const std::string status =
      OrFail(job_->Broadcast(agreed ? fmt::format("{}", static_cast<int>(agreed->status)) : ""));
  if (status.empty()) return std::nullopt;
  if (rank() == 0) return agreed;
  return Outcome{FailureOf(StatusOf(status)), "", ""};
}

std::string DistributedSession::FirstThatDiffers(const std::string& own) {
  messaging::ByteWriter writer;
  writer.Text(own);
  writer.Text(job_->place().host);
  const auto all = OrFail(job_->Gather(writer.Take()));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    messaging::ByteReader reader(all[rank]);
    if (reader.Text() != own) return fmt::format("rank {} on '{}'", rank, Printable(reader.Text()));
  }
  return "";
}

ExitStatus DistributedSession::End(ExitStatus status) {
  const std::string agreed = OrFail(job_->Broadcast(fmt::format("{}", static_cast<int>(status))));
  OrFail(job_->Barrier());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
  watch_->Finish();
  job_.reset();
  if (runtime::MpiSession* session = runtime::MpiSession::Current()) session->Finish();
  // A rank that failed itself never exits with success.
  return status == kDone ? StatusOf(agreed) : FailureOf(StatusOf(agreed));
}

Outcome RunInSession(const messaging::Launch& launch, const runtime::WatchOptions& options,
                     const std::function<Outcome(DistributedSession&)>& work) {
  std::optional<runtime::StartLimit> limit(std::in_place, launch);
  auto job = runtime::JoinMpi();
  if (!job) return Failed(job.error().message);
  const auto session = std::make_shared<DistributedSession>(std::move(*job));
  if (auto watched = session->StartWatch(options); !watched) {
    return Failed(watched.error().message);
  }
  limit.reset();
  Outcome outcome = work(*session);
  outcome.end = [session](ExitStatus status) { return session->End(status); };
  return outcome;
}

void RunJobs(const std::vector<std::unique_ptr<runtime::Job>>& jobs, Watch& watch,
             const std::function<void(runtime::Job&)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < jobs.size(); ++rank) {
    // Running ranks wait for the others, so if one is missing the process must end.
    try {
      threads.emplace_back([&, rank] { work(*jobs[rank]); });
    } catch (const std::exception& error) {
      watch.Fail(static_cast<int>(rank),
                 {fmt::format("the system cannot start a thread: {}", error.what())});
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace stepcast::cli
