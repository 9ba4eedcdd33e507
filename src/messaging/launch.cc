#include "src/messaging/launch.h"

#include <array>
#include <charconv>
#include <string_view>

#include "fmt/format.h"
#include "src/base/printable.h"

namespace stepcast::messaging {
namespace {

struct MpiVariables {
  const char* ranks;
  const char* rank;
};
// The variables that launchers of MPI programs set: Open MPI's mpirun, Hydra, srun with PMI-1 or
// PMI-2, and srun --mpi=pmix.
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
  const char* const ranks = environment("WORLD_SIZE");
  if (environment("RANK") == nullptr || ranks == nullptr || Integer(ranks) == 1) return launch;
  const char* const local = environment("LOCAL_WORLD_SIZE");
  const bool one_node = local != nullptr && std::string_view(local) == ranks;
  return tl::unexpected(Diagnostics{
      {.code = "launch.needs-mpi",
       .location = {"environment", 0, 0},
       .message = fmt::format("torchrun started the rank (RANK and WORLD_SIZE are set), but ranks "
                              "in separate processes need MPI: WORLD_SIZE is {}",
                              Quoted(ranks)),
       .hint = one_node ? "start the command without torchrun: on one node, ranks run as threads "
                          "of one process"
                        : fmt::format("start stepcast with 'mpirun -n {0} stepcast ...' or 'srun "
                                      "-n {0} stepcast ...'. On one node, no launcher is needed: "
                                      "run 'unset RANK WORLD_SIZE', and start stepcast directly",
                                      Printable(ranks))}});
}

}  // namespace stepcast::messaging
