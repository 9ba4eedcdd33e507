#include "src/cli/distributed_command.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "src/cli/distributed_session.h"
#include "src/messaging/launch.h"
#include "src/messaging/mailbox.h"
#include "src/runtime/join.h"
#include "src/runtime/mpi_mailbox.h"
#include "src/runtime/watch.h"

namespace stepcast::cli {
namespace {

using runtime::Failure;

// What a rank does that has an understanding with all others.
Outcome TakePart(const WorkCommand& command, DistributedSession& session) {
  const auto fail = [&](const Failure& failure) { session.watch().Fail(session.rank(), failure); };
  const int threads = command.threads > 0
                          ? command.threads
                          : planner::ThreadsOfRank(session.job().place().local_ranks);
  const auto mailbox = runtime::OpenMpiMailbox();
  if (!mailbox) fail(mailbox.error());
  try {
    if (session.rank() == 0) {
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

Outcome RunInSession(const WorkCommand& command, DistributedSession& session,
                     std::unique_ptr<runtime::StartLimit> limit) {
  if (auto watched = session.StartWatch({}); !watched) return Failed(watched.error().message);
  limit.reset();
  // Nothing that a rank does here takes a known time, so that none is taken for a hang.
  session.watch().SetStage(session.rank(), runtime::Stage::kForecasting);
  std::optional<Outcome> end = command.prepare();
  if (end = session.Agree(end); end) return std::move(*end);
  const std::string other = session.FirstThatDiffers(command.fingerprint());
  if (!other.empty()) {
    end = WrongInput(
        {{.code = "launch.different-work",
          .location = {command.scenario, 0, 0},
          .message = fmt::format("{} has other input files, other options or another build of "
                                 "stepcast than rank 0",
                                 other),
          .hint = "give all ranks the same program, the same options and the same files"}});
  }
  if (end = session.Agree(end); end) return std::move(*end);
  return TakePart(command, session);
}

}  // namespace

Outcome RunDistributed(const WorkCommand& command) {
  const auto launch = messaging::FindLaunch([](const char* name) { return std::getenv(name); });
  // Work of this kind needs no launcher: torchrun's variables are ignored.
  const bool ranks = launch && launch->launcher == messaging::Launcher::kMpi && launch->ranks > 1;
  if (!ranks) return RunOnThreads(command);
  auto limit = std::make_unique<runtime::StartLimit>(*launch);
  auto job = runtime::Join(*launch);
  if (!job) return Failed(job.error().message);
  auto session = std::make_shared<DistributedSession>(std::move(*job));
  Outcome outcome = RunInSession(command, *session, std::move(limit));
  if (session->watched())
    outcome.end = [session](ExitStatus status) { return session->End(status); };
  return outcome;
}

}  // namespace stepcast::cli
