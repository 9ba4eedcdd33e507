#include "src/cli/outcome.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"

namespace stepcast::cli {
namespace {

// A signal handler may neither allocate nor lock, so the end of the line is prepared beforehand.
std::array<char, 5000> rest{};
std::atomic<std::size_t> rest_size{0};
std::atomic<const std::atomic<std::int64_t>*> results{nullptr};

void Say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

KeptNote::KeptNote(const std::atomic<std::int64_t>& kept, const std::string& what,
                   const std::string& store) {
  const std::string text =
      fmt::format(" {} are saved in {}; to continue, run the same command again\n", what,
                  Quoted(store, "'", PATH_MAX));
  rest_size = std::min(text.size(), rest.size());
  std::memcpy(rest.data(), text.data(), rest_size);
  results = &kept;
}

KeptNote::~KeptNote() { results = nullptr; }

void SayWhatIsKept() {
  const std::atomic<std::int64_t>* const kept = results.load();
  if (kept == nullptr) return;
  std::array<char, 24> digits{};
  std::size_t first = digits.size();
  std::int64_t number = kept->load();
  do {
    digits[--first] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  Say("stepcast: ");
  Say({digits.data() + first, digits.size() - first});
  Say({rest.data(), rest_size.load()});
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

Outcome RunOnThreads(const WorkCommand& command) {
  if (auto end = command.prepare()) return std::move(*end);
  const auto pool = planner::MakeThreadPool(command.work, command.threads);
  return command.run(*pool);
}

Outcome WrongInput(const Diagnostics& diagnostics) {
  Outcome outcome{kWrongInput, "", Format(diagnostics)};
  outcome.diagnostics = diagnostics;
  return outcome;
}

Outcome WrongInput(const char* code, std::string place, std::string message, std::string hint) {
  return WrongInput({{code, {std::move(place), 0, 0}, std::move(message), std::move(hint)}});
}

Outcome Failed(const std::string& reason) {
  return {kFailed, "", "stepcast: " + Quoted(reason, "", std::string::npos) + "\n"};
}

Outcome OutcomeOf(const study::Failure& failure) {
  return failure.mistakes.empty() ? Failed(failure.reason) : WrongInput(failure.mistakes);
}

}  // namespace stepcast::cli
