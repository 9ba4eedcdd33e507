#include "src/runtime/mpi_session.h"

#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>

#include "fmt/format.h"

namespace stepcast::runtime {
namespace {

std::mutex mutex;
MpiSession* current = nullptr;
bool ended = false;

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// Open MPI keeps memory until the process ends. The modules that allocated it are unloaded by then,
// so LeakSanitizer cannot be told their names. Processes without MPI are checked.
extern "C" int __lsan_is_turned_off() { return current != nullptr || ended ? 1 : 0; }
#endif

#if defined(__SANITIZE_THREAD__)
// Open MPI's TCP transport takes its locks in two orders while processes join, all in one thread.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "deadlock:mca_btl_tcp\n"; }
#endif

Attempt<MpiSession*> MpiSession::Start() {
  const std::lock_guard lock(mutex);
  if (current != nullptr) return current;
  if (ended) return tl::unexpected(Failure{"MPI was shut down and cannot be started again"});
  // More threads may wait than there are cores; a waiting thread must not keep a core from one that
  // computes. (The variable is set before the process has threads.)
  if (std::getenv("OMPI_MCA_mpi_yield_when_idle") == nullptr) {
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  }
  int provided = MPI_THREAD_SINGLE;
  const Attempt<void> started =
      CheckMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "be started");
  if (!started) return tl::unexpected(started.error());
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    ended = true;
    return tl::unexpected(Failure{
        "the MPI library does not allow several threads to communicate (MPI_THREAD_MULTIPLE)"});
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  current = new MpiSession(rank, ranks);
  return current;
}

MpiSession* MpiSession::Current() {
  const std::lock_guard lock(mutex);
  return current;
}

bool MpiSession::Available() { return true; }

std::string MpiSession::LibraryVersion() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  // Open MPI counts the terminating zero.
  return version.substr(0, version.find_first_of(std::string("\n\0", 2)));
}

void MpiSession::Finish() {
  const std::lock_guard lock(mutex);
  if (current != this) return;
  MPI_Finalize();
  ended = true;
  current = nullptr;
  delete this;
}

void MpiSession::Abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

Attempt<void> CheckMpi(int code, std::string_view doing) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return tl::unexpected(Failure{fmt::format(
      "MPI cannot {}: {}", doing, std::string_view(text, static_cast<std::size_t>(length)))});
}

}  // namespace stepcast::runtime
