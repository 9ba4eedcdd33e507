#include "src/runtime/launch.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/job_secret.h"
#include "src/runtime/mpi_job.h"
#include "src/runtime/rank_placement.h"

namespace stepcast::runtime {
namespace {

struct MpiVariables {
  const char* ranks;
  const char* rank;
};
// What launchers of MPI programs set: Open MPI's mpirun, Hydra and srun with PMI-1 or PMI-2, and
// srun --mpi=pmix.
constexpr std::array kMpi{
    MpiVariables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    MpiVariables{"PMI_SIZE", "PMI_RANK"},
    MpiVariables{"SLURM_NTASKS", "PMIX_RANK"},
};

std::optional<int> Integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class TcpVariables {
 public:
  TcpVariables(const Environment& environment, Diagnostics& faults)
      : environment_(environment), faults_(faults) {}

  std::string Text(const char* name) {
    const char* value = environment_(name);
    if (value != nullptr && *value != '\0') return value;
    faults_.push_back({.code = "launch.missing-variable",
                       .location = {"environment", 0, 0},
                       .message = fmt::format("RANK and WORLD_SIZE are set, but not {}", name),
                       .hint = "set MASTER_ADDR and MASTER_PORT to where rank 0 is, as torchrun "
                               "does, or unset RANK and WORLD_SIZE"});
    return "";
  }

  // Of the job; empty: none is given.
  std::string Secret() {
    const char* const secret = environment_("STEPCAST_JOB_SECRET");
    const char* const file = environment_("STEPCAST_JOB_SECRET_FILE");
    const auto fault = [&](std::string message) {
      faults_.push_back({.code = "launch.bad-secret",
                         .location = {"environment", 0, 0},
                         .message = std::move(message),
                         .hint = "make one with: openssl rand -hex 32"});
      return "";
    };
    if (secret != nullptr && *secret != '\0') {
      if (std::string_view(secret).size() >= kShortestSecret) return secret;
      return fault(fmt::format(
          "STEPCAST_JOB_SECRET has fewer than {} bytes, which could be guessed", kShortestSecret));
    }
    if (file == nullptr || *file == '\0') return "";
    auto read = ReadSecret(file);
    if (!read) return fault("STEPCAST_JOB_SECRET_FILE: " + read.error().message);
    return *std::move(read);
  }

  int Number(const char* name, int least, int most) {
    const std::string text = Text(name);
    if (text.empty()) return least;
    const std::optional<int> value = Integer(text);
    if (value && *value >= least && *value <= most) return *value;
    faults_.push_back({.code = "launch.bad-variable",
                       .location = {"environment", 0, 0},
                       .message = fmt::format("{} must be an integer from {} to {}: {}", name,
                                              least, most, Quoted(text)),
                       .hint = "start the ranks with torchrun, or set the variables as it does"});
    return least;
  }

 private:
  const Environment& environment_;
  Diagnostics& faults_;
};

}  // namespace

Result<Launch> FindLaunch(const Environment& environment) {
  Launch launch;
  for (const MpiVariables& names : kMpi) {
    const char* const ranks = environment(names.ranks);
    const char* const rank = environment(names.rank);
    if (ranks == nullptr || rank == nullptr) continue;
    launch.launcher = Launcher::kMpi;
    launch.ranks = Integer(ranks).value_or(1);
    launch.rank = Integer(rank).value_or(0);
    return launch;
  }
  if (environment("RANK") == nullptr || environment("WORLD_SIZE") == nullptr) return launch;

  Diagnostics faults;
  TcpVariables variables(environment, faults);
  constexpr int kMostRanks = 1 << 20;
  launch.launcher = Launcher::kTcp;
  launch.ranks = variables.Number("WORLD_SIZE", 1, kMostRanks);
  launch.rank = variables.Number("RANK", 0, launch.ranks - 1);
  Rendezvous& rendezvous = launch.rendezvous;
  rendezvous.rank = launch.rank;
  rendezvous.ranks = launch.ranks;
  rendezvous.address = variables.Text("MASTER_ADDR");
  rendezvous.port = variables.Number("MASTER_PORT", 1, 65535);
  if (environment("LOCAL_RANK") != nullptr) {
    rendezvous.local_rank = variables.Number("LOCAL_RANK", 0, kMostRanks);
  }
  if (environment("LOCAL_WORLD_SIZE") != nullptr) {
    rendezvous.one_machine = variables.Number("LOCAL_WORLD_SIZE", 1, kMostRanks) == launch.ranks;
  }
  rendezvous.one_machine = rendezvous.one_machine || IsLoopback(rendezvous.address);
  rendezvous.secret = variables.Secret();
  if (rendezvous.secret.empty() && !rendezvous.one_machine && faults.empty()) {
    faults.push_back({.code = "launch.missing-secret",
                      .location = {"environment", 0, 0},
                      .message = fmt::format("ranks on several machines must share a secret, and "
                                             "STEPCAST_JOB_SECRET is not set; MASTER_ADDR is {}",
                                             Quoted(rendezvous.address)),
                      .hint = "set STEPCAST_JOB_SECRET to the same random text at all ranks "
                              "(openssl rand -hex 32), or STEPCAST_JOB_SECRET_FILE to a file that "
                              "holds it"});
  }
  const char* const agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  rendezvous.port_taken = agent != nullptr && std::string_view(agent) == "True";
  const char* const run = environment("TORCHELASTIC_RUN_ID");
  rendezvous.run_id =
      fmt::format("{}:{} {}", rendezvous.address, rendezvous.port, run == nullptr ? "" : run);
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return launch;
}

std::chrono::milliseconds StartLimit::Of(const Launch& launch) {
  if (launch.launcher != Launcher::kTcp) return std::chrono::seconds(120);
  // Ranks that have met still have to meet in their watch.
  return launch.rendezvous.timeout + std::chrono::seconds(30);
}

StartLimit::StartLimit(const Launch& launch, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kAfterRank0(2000);
  const auto own = launch.rank == 0 ? limit : limit + kAfterRank0;
  const std::string sentence = fmt::format(
      "stepcast: rank {} on '{}': not all of {} ranks have started within {} s\n", launch.rank,
      HostName(), launch.ranks, std::chrono::duration<double>(own).count());
  thread_ = std::thread([this, own, sentence] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, own, [this] { return met_; })) return;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, sentence.data(), sentence.size());
    ::_exit(1);
  });
}

StartLimit::~StartLimit() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Attempt<std::unique_ptr<Job>> Join(const Launch& launch) {
  STEPCAST_CHECK(launch.launcher != Launcher::kNone, "a launcher has started this process");
  if (launch.launcher == Launcher::kMpi) return JoinMpi();
  return JoinTcp(launch.rendezvous);
}

}  // namespace stepcast::runtime
