#include "src/runtime/host/backend.h"

#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/host/blas.h"
#include "src/runtime/host/device.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime::host {
namespace {

// Each has some threads of its own, and systems grant a process some ten thousand.
constexpr int kMostThreadRanks = 1024;

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

class HostBackend : public Backend {
 public:
  const char* name() const override { return "host"; }

  std::vector<std::pair<std::string, std::string>> Describe() const override {
    std::vector<std::pair<std::string, std::string>> facts;
    facts.emplace_back("cpu", CpuModel());
    facts.emplace_back("cores", std::to_string(std::thread::hardware_concurrency()));
    utsname system{};
    if (uname(&system) == 0) {
      facts.emplace_back("kernel", std::string(system.sysname) + " " + system.release);
    }
    const Attempt<const Blas*> blas = Blas::Load();
    facts.emplace_back("blas", blas ? (*blas)->Version() : "none");
    const MpiSession* mpi = MpiSession::Current();
    facts.emplace_back("mpi", mpi != nullptr ? mpi->LibraryVersion() : "none, ranks are threads");
    return facts;
  }

  int MaxLocalRanks() const override { return kMostThreadRanks; }

  Attempt<std::unique_ptr<Device>> MakeDevice(const program::Program& program, Job& job,
                                              const DeviceOptions& options) override {
    Attempt<std::unique_ptr<HostDevice>> device = HostDevice::Make(program, job, options);
    if (!device) return tl::unexpected(device.error());
    return std::unique_ptr<Device>(*std::move(device));
  }
};

}  // namespace

std::unique_ptr<Backend> MakeHostBackend() {
  // Loading it may set variables. Without the library, what needs products says so.
  (void)Blas::Load();
  return std::make_unique<HostBackend>();
}

}  // namespace stepcast::runtime::host
