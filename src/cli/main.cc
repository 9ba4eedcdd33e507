#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/base/replacement.h"
#include "src/cli/command_line.h"
#include "src/cli/kept_note.h"
#include "src/cli/outcome.h"
#include "src/report/output_file.h"
#include "src/runtime/watch.h"

// The process: signals, descriptors, memory, exit status.
namespace stepcast::cli {
namespace {

extern "C" void StopAtSignal(int signal) {
  // Several ranks end together, and the cause of the signal may be another rank's death.
  if (runtime::Watch::TakeSignal(signal)) return;
  SignalsHeldBack::LetFinish();
  report::RemoveUnfinishedFiles();
  constexpr std::string_view kLine = "\nstepcast: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  SayWhatIsKept();
  ::_exit(128 + signal);
}

void SetSignals() {
  // A reader that goes away is an error of writing, and not the end at once: what a command has
  // begun, it finishes.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // so is a limit on file sizes
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // as nohup wants it
    struct sigaction action = {};
    action.sa_handler = StopAtSignal;
    action.sa_flags = SA_RESTART;
    ::sigfillset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
}

// A closed stdin, stdout or stderr would give its number to the next file that is opened.
void FillStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      // Written to, it fails as a closed one would.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
    }
  }
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A search makes and drops step programs of some megabytes by the thousand. glibc gives such blocks
// back at once and takes them anew, zeroed page by page: a fifth of the time of `plan`.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int Main(int count, char** words) {
  KeepFreedMemory();
  FillStandardDescriptors();
  SetSignals();
  Outcome outcome;
  try {
    outcome = RunCommandLine(std::vector<std::string>(words + std::min(count, 1), words + count));
  } catch (const std::bad_alloc&) {
    report::RemoveUnfinishedFiles();
    outcome = {.status = kFailed, .output = "", .messages = "stepcast: out of memory\n"};
  }
  WriteAll(STDERR_FILENO, outcome.messages);
  // Some file systems tell only at the end that there was no room.
  const bool complete = WriteAll(STDOUT_FILENO, outcome.output) &&
                        (outcome.output.empty() || ::close(STDOUT_FILENO) == 0);
  // A reader that has seen enough (`| head`) takes nothing from the answer.
  if (!complete && errno != EPIPE) {
    WriteAll(STDERR_FILENO,
             fmt::format("stepcast: cannot write the output: {}\n", std::strerror(errno)));
    outcome.status = kFailed;
  }
  return outcome.end ? outcome.end(outcome.status) : outcome.status;
}

}  // namespace
}  // namespace stepcast::cli

int main(int count, char** words) { return stepcast::cli::Main(count, words); }
