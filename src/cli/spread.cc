#include "src/cli/spread.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "src/cli/member.h"
#include "src/runtime/launch.h"
#include "src/runtime/mailbox.h"
#include "src/runtime/mpi_mailbox.h"
#include "src/runtime/watch.h"

namespace stepcast::cli {
namespace {

using runtime::Failure;

Outcome RunAlone(const SpreadCommand& command) {
  if (auto end = command.prepare()) return std::move(*end);
  const auto pool = planner::MakeThreadPool(command.work, command.threads);
  return command.run(*pool);
}

// What a rank does that has an understanding with all others.
Outcome TakePart(const SpreadCommand& command, Member& member) {
  const auto fail = [&](const Failure& failure) { member.watch().Fail(member.rank(), failure); };
  const int threads = command.threads > 0
                          ? command.threads
                          : planner::ThreadsOfRank(member.job().place().local_ranks);
  const auto mailbox = runtime::OpenMpiMailbox();
  if (!mailbox) fail(mailbox.error());
  try {
    if (member.rank() == 0) {
      const auto pool = planner::MakeMpiPool(**mailbox, command.work, threads);
      return command.run(*pool);
    }
    const auto served = planner::RunWorker(**mailbox, command.work, threads);
    if (!served) fail(served.error());
  } catch (const std::bad_alloc&) {
    fail({"out of memory", true});
  }
  return {};
}

Outcome RunMember(const SpreadCommand& command, Member& member,
                  std::unique_ptr<runtime::StartLimit> limit) {
  if (auto watched = member.StartWatch({}); !watched) return Failed(watched.error().message);
  limit.reset();
  // Nothing that a rank does here takes a known time, so that none is taken for a hang.
  member.watch().SetStage(member.rank(), runtime::Stage::kForecasting);
  std::optional<Outcome> end = command.prepare();
  if (end = member.Agree(end); end) return std::move(*end);
  const std::string other = member.FirstThatDiffers(command.fingerprint());
  if (!other.empty()) {
    end = WrongInput(
        {{.code = "launch.different-work",
          .location = {command.scenario, 0, 0},
          .message = fmt::format("{} has other input files, other options or another build of "
                                 "stepcast than rank 0",
                                 other),
          .hint = "give all ranks the same program, the same options and the same files"}});
  }
  if (end = member.Agree(end); end) return std::move(*end);
  return TakePart(command, member);
}

}  // namespace

Outcome RunSpread(const SpreadCommand& command) {
  const auto launch = runtime::FindLaunch([](const char* name) { return std::getenv(name); });
  // Work of this kind needs no launcher: torchrun's variables are ignored.
  const bool ranks = launch && launch->launcher == runtime::Launcher::kMpi && launch->ranks > 1;
  if (!ranks) return RunAlone(command);
  auto limit = std::make_unique<runtime::StartLimit>(*launch);
  auto job = runtime::Join(*launch);
  if (!job) return Failed(job.error().message);
  auto member = std::make_shared<Member>(std::move(*job));
  Outcome outcome = RunMember(command, *member, std::move(limit));
  if (member->watched()) outcome.end = [member](ExitStatus status) { return member->End(status); };
  return outcome;
}

}  // namespace stepcast::cli
