#include "src/cli/process.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/text_lines.h"
#include "src/cli/command_line.h"
#include "src/cli/outcome.h"
#include "src/messaging/launch.h"
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

namespace fs = std::filesystem;

constexpr const char* kProgram = "stepcast-hardware";

fs::path OwnFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

bool Runs(const fs::path& program) { return ::access(program.c_str(), X_OK) == 0; }

std::vector<char*> Words(const std::string& program, std::vector<std::string>& arguments) {
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  return words;
}

Outcome Missing(const fs::path& folder, const std::string& need) {
  return WrongInput(
      "command.no-hardware", "command line",
      fmt::format("{} needs the program {}, but the folder {} does not contain this program", need,
                  kProgram, Quoted(folder.string(), "'", PATH_MAX)),
      fmt::format("copy {} of the same release from the package {} into this folder; in a "
                  "checkout, run 'bazel build //src/cli:stepcast'",
                  kProgram, kProgram));
}

// Returns only on failure.
Outcome HandOver(std::vector<std::string> arguments, const std::string& need) {
  const fs::path folder = OwnFolder();
  const std::string program = (folder / kProgram).string();
  if (!Runs(program)) return Missing(folder, need);
  ::execv(program.c_str(), Words(program, arguments).data());
  return Failed(fmt::format("cannot start {}: {}", program, std::strerror(errno)));
}

// The program's output if it starts and exits with 0; otherwise empty.
std::string OutputOf(const std::string& program, std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  Words(program, arguments).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string output;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; error == 0 && (size = ::read(ends[0], part.data(), part.size())) > 0;) {
    output.append(part.data(), static_cast<std::size_t>(size));
  }
  ::close(ends[0]);
  int status = 0;
  if (error != 0 || ::waitpid(child, &status, 0) != child || status != 0) return "";
  return output;
}

std::string Backends() {
  const fs::path folder = OwnFolder();
  const std::string program = (folder / kProgram).string();
  if (!Runs(program))
    return fmt::format("unavailable, because the program {} is not in the folder {}", kProgram,
                       folder.string());
  const std::string version = OutputOf(program, {"--version"});
  constexpr std::string_view kLine = "\nbackends ";
  const std::size_t line = version.find(kLine);
  if (line == std::string::npos) {
    return fmt::format("unavailable, because {} cannot start; run this program to see the reason",
                       program);
  }
  const std::size_t begin = line + kLine.size();
  return version.substr(begin, version.find('\n', begin) - begin);
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

HardwareAccess HandedOver(std::vector<std::string> arguments) {
  const auto run = [arguments = std::move(arguments)](const std::string& need) {
    return HandOver(arguments, need);
  };
  return {
      .execute = [run](const ExecuteOptions&) { return run("'stepcast execute'"); },
      .validate = [run](const ValidateOptions&) { return run("'stepcast validate SCENARIO'"); },
      .calibrate = [run](const CalibrateOptions&) { return run("'stepcast calibrate'"); },
      .run_work =
          [run](const WorkCommand& command) {
            const auto launch =
                messaging::FindLaunch([](const char* name) { return std::getenv(name); });
            // This work needs no launcher, so torchrun's variables are ignored.
            const bool ranks =
                launch && launch->launcher == messaging::Launcher::kMpi && launch->ranks > 1;
            if (!ranks) return RunOnThreads(command);
            Outcome outcome = run("a sweep or a search on several ranks");
            if (launch->rank > 0) outcome.messages.clear();  // only rank 0 prints them
            return outcome;
          },
      .backends = Backends,
  };
}

}  // namespace stepcast::cli
