#include "src/base/named_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "fmt/format.h"
#include "src/base/printable.h"

namespace stepcast {
namespace {

constexpr int kMoment = 2000;  // ms, after which waiting is said

void SayWaiting(const char* whom, const std::string& path) {
  const std::string sentence =
      fmt::format("stepcast: waits for {} the pipe {}\n", whom, Printable(path));
  std::fputs(sentence.c_str(), stderr);
  std::fflush(stderr);
}

bool SetBlocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

int Closed(int descriptor) {
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

}  // namespace

int OpenPipeToRead(const std::string& path) {
  // Opened so, it does not wait; poll does, for the first writer and its bytes (pipe(7), poll(2)).
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return -1;
  struct pollfd end = {descriptor, POLLIN, 0};
  int ready = ::poll(&end, 1, kMoment);
  if (ready == 0) SayWaiting("what writes into", path);
  while (ready == 0 || (ready < 0 && errno == EINTR)) ready = ::poll(&end, 1, -1);
  if (ready < 0 || !SetBlocking(descriptor)) return Closed(descriptor);
  return descriptor;
}

int OpenPipeToWrite(const std::string& path) {
  constexpr int kPause = 10;  // ms
  // Opened so, it fails with ENXIO until something reads the pipe (open(2)).
  for (int waited = 0;; waited += kPause) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) return SetBlocking(descriptor) ? descriptor : Closed(descriptor);
    if (errno != ENXIO && errno != EINTR) return -1;
    if (waited == kMoment) SayWaiting("what reads from", path);
    ::poll(nullptr, 0, kPause);
  }
}

}  // namespace stepcast
