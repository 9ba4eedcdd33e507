#include <cstdlib>
#include <string>
#include <vector>

#include "src/cli/backends.h"
#include "src/cli/hardware_commands.h"
#include "src/cli/process.h"
#include "src/runtime/watch.h"

namespace stepcast::cli {
namespace {

HardwareAccess OwnHardware(const std::vector<std::string>& /*arguments*/) {
  return {.execute = Execute,
          .validate = Validate,
          .calibrate = Calibrate,
          .run_work = RunDistributed,
          .backends = BackendNames};
}

}  // namespace
}  // namespace stepcast::cli

int main(int count, char** words) {
  // Variables for libraries. Later, when there are threads, the environment must not change.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  return stepcast::cli::RunProcess(count, words,
                                   {.hardware = stepcast::cli::OwnHardware,
                                    .take_signal = stepcast::runtime::Watch::TakeSignal});
}
