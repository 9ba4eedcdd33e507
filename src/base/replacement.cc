#include "src/base/replacement.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <utility>

#include "fmt/format.h"

namespace stepcast {
namespace {

std::atomic<int> holders = 0;  // SignalsHeldBack of all threads
std::atomic<bool> stopping = false;
thread_local int held_here = 0;

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler uses them");

}  // namespace

std::string TemporaryName(const std::string& target) {
  const std::filesystem::path path(target);
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  // File systems take names of 255 bytes.
  constexpr std::size_t kMostKept = 200;
  const std::string name = path.filename().string();
  return (path.parent_path() / fmt::format(".{}.{:016x}", name.substr(0, kMostKept), number))
      .string();
}

bool SyncFolder(const std::string& folder) {
  const char* const name = folder.empty() ? "." : folder.c_str();
  const int descriptor = ::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES;  // one may write to a folder that one may not list
  const bool done = ::fsync(descriptor) == 0 || errno == EINVAL;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return done;
}

SignalsHeldBack::SignalsHeldBack() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  // A process that is ending must not begin another version.
  while (held_here == 0 && stopping) ::pause();
  ++held_here;
  ++holders;
  if (held_here > 1 || !stopping) return;
  // The end came between the two.
  --holders;
  for (;;) ::pause();
}

SignalsHeldBack::~SignalsHeldBack() {
  --holders;
  --held_here;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalsHeldBack::LetFinish() {
  constexpr int kLongest = 5000;  // ms
  const int error = errno;
  stopping = true;
  for (int waited = 0; holders > held_here && waited < kLongest; ++waited) ::poll(nullptr, 0, 1);
  errno = error;
}

}  // namespace stepcast
