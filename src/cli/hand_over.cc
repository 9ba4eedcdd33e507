#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/cli/process.h"
#include "src/messaging/launch.h"

namespace stepcast::cli {
namespace {

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
