#include "src/cli/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "src/base/text_lines.h"
#include "src/cli/command_line.h"
#include "src/cli/outcome.h"
#include "src/report/output_file.h"

namespace stepcast::cli {
namespace {

std::atomic<StopFlag*> stopped{nullptr};

bool (*take_signal)(int) = nullptr;

extern "C" void StopAtSignal(int signal) {
  // Several ranks end together, and the signal may have been caused by another rank's death.
  const int error = errno;
  const bool taken = TakeInterrupt(signal) || (take_signal != nullptr && take_signal(signal));
  errno = error;
  if (taken) return;
  SignalsHeldBack::LetFinish();
  report::RemoveUnfinishedFiles();
  constexpr std::string_view kLine = "\nstepcast: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  SayWhatIsKept();
  ::_exit(128 + signal);
}

void SetSignals() {
  // If a reader closes the pipe, writes fail instead of a signal ending the process, so that a
  // command finishes its files.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // so is a limit on file sizes
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // ignored by the parent, for example nohup
    struct sigaction action = {};
    action.sa_handler = StopAtSignal;
    action.sa_flags = SA_RESTART;
    ::sigfillset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
}

// If stdin, stdout or stderr is closed, the next opened file would get its number.
void FillStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      // Writing to it fails, as to a closed one.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
    }
  }
}

// A search allocates and frees thousands of step programs of some megabytes. glibc would return
// such blocks to the system and zero new pages each time: a fifth of the time of `plan`.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

// Stack size for readers and searches, on the main and other threads. Under `ulimit -s 64` a
// command would crash without a message. glibc gives threads the limit at process start.
constexpr rlim_t kStack = rlim_t{8} << 20;

void RunWithStack(const std::function<void()>& work) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStack) return work();
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
#ifdef __GLIBC__
  ::pthread_setattr_default_np(&attributes);
#endif
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    (*static_cast<const std::function<void()>*>(given))();
    return nullptr;
  };
  const int refused =
      ::pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work));
  ::pthread_attr_destroy(&attributes);
  if (refused != 0) throw std::system_error(refused, std::generic_category(), "no stack");
  ::pthread_join(thread, nullptr);
}

// The reason when the system refused something essential: memory, a thread, a folder.
std::string ReasonOf(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  return error.what();
}

Outcome RunOrSayWhyNot(const std::vector<std::string>& arguments, const ProcessParts& parts) {
  try {
    return RunCommandLine(arguments, parts.hardware(arguments));
  } catch (const std::exception& error) {
    report::RemoveUnfinishedFiles();
    return Failed(ReasonOf(error));
  }
}

// Ends the process with a sentence when an exception leaves a thread.
[[noreturn]] void EndByException() {
  report::RemoveUnfinishedFiles();
  std::string reason = "a thread failed";
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    reason = ReasonOf(error);
  } catch (...) {
  }
  const std::string line = Failed(reason).messages;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  SayWhatIsKept();
  ::_exit(kFailed);
}

}  // namespace

StopAtInterrupt::StopAtInterrupt(StopFlag& flag) { stopped = &flag; }
StopAtInterrupt::~StopAtInterrupt() { stopped = nullptr; }

bool TakeInterrupt(int signal) {
  if (signal != SIGINT) return false;
  StopFlag* const flag = stopped.exchange(nullptr);
  if (flag == nullptr) return false;
  flag->Request();
  constexpr std::string_view kLine =
      "\n"
      "stepcast: stopping the search and printing the best plan so far. To exit without an answer, "
      "press Ctrl-C again\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  return true;
}

int RunProcess(int count, char** words, const ProcessParts& parts) {
  std::set_terminate(EndByException);
  take_signal = parts.take_signal;
  KeepFreedMemory();
  FillStandardDescriptors();
  SetSignals();
  Outcome outcome;
  const std::vector<std::string> arguments(words + std::min(count, 1), words + count);
  RunWithStack([&] { outcome = RunOrSayWhyNot(arguments, parts); });
  WriteAll(STDERR_FILENO, outcome.messages);
  // Some file systems report a full disk only on close.
  const bool complete = WriteAll(STDOUT_FILENO, outcome.output) &&
                        (outcome.output.empty() || ::close(STDOUT_FILENO) == 0);
  // A reader that stops early (`| head`) does not change the exit status.
  if (!complete && errno != EPIPE) {
    WriteAll(STDERR_FILENO,
             fmt::format("stepcast: cannot write the output: {}\n", std::strerror(errno)));
    outcome.status = kFailed;
  }
  return outcome.end ? outcome.end(outcome.status) : outcome.status;
}

}  // namespace stepcast::cli
