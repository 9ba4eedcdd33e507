#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/files.h"
#include "src/cli/command_options.h"
#include "src/formats/question.h"
#include "src/planner/sweep_grid.h"
#include "src/report/answers.h"
#include "src/stepcast.h"

namespace stepcast::cli {
namespace {

using formats::Question;

library::Input InputOf(const formats::QuestionScenario& scenario,
                       const std::vector<std::string>& set) {
  return {.path = scenario.path, .text = scenario.text, .title = "dict", .set = set};
}

library::PlanQuestion PlanQuestionOf(const Question& question) {
  return {.target = question.target,
          .framework = question.framework,
          .only = question.only,
          .within = question.within,
          .vary = question.vary,
          .fix = question.fix,
          .deadline = question.deadline,
          .tokens = question.tokens,
          .price = question.price,
          .availability = question.availability,
          .headroom = question.headroom,
          .fewer_nodes = question.fewer_nodes,
          .best = question.best,
          .why = question.why,
          .folder = question.folder,
          .force = question.force};
}

template <typename T>
std::string LineOf(const std::string& id, const library::Answer<T>& answer) {
  if (answer) return report::AnswerLine(id, answer->json);
  const library::Failure& failure = answer.error();
  if (failure.mistakes.empty()) return report::FailureLine(id, failure.reason);
  Diagnostics mistakes;
  for (const library::Mistake& mistake : failure.mistakes) {
    mistakes.push_back({mistake.code,
                        {mistake.file, mistake.line, mistake.column},
                        mistake.message,
                        mistake.hint});
  }
  return report::MistakesLine(id, mistakes);
}

std::string Answer(const std::string& id, const Question& question) {
  const library::Input input = InputOf(question.scenario, question.set);
  if (question.ask == "simulate") return LineOf(id, library::Simulate(input));
  if (question.ask == "sweep") return LineOf(id, library::Sweep(input, question.vary));
  if (question.ask == "plan") return LineOf(id, library::Plan(input, PlanQuestionOf(question)));
  if (question.ask == "memory") {
    return LineOf(id, library::Memory(input, question.max_micro_batch));
  }
  if (question.ask == "explain") return LineOf(id, library::Explain(input));
  if (question.ask == "emit") {
    return LineOf(id, library::Emit(input, question.folder, question.force));
  }
  const formats::QuestionScenario& other = question.other ? *question.other : question.scenario;
  return LineOf(id, library::Compare(input, InputOf(other, question.other_set)));
}

// A limit on the combinations of a question, since other questions wait for it: at most a minute or
// two of work. Mistakes in the values are reported where they are read.
std::optional<Diagnostics> TooManyCombinations(const Question& question) {
  constexpr std::size_t kMost = 20'000;
  std::size_t combinations = 1;
  for (const std::string& text : question.vary) {
    const auto axis = planner::ParseSweepAxis(text);
    if (!axis || axis->all) continue;
    combinations *= std::clamp<std::size_t>(axis->values.size(), 1, kMost + 1);
    if (combinations <= kMost) continue;
    return Diagnostics{{"question.too-large",
                        {"question", 0, 0},
                        fmt::format("'vary' has more than {} combinations", kMost),
                        "ask for some of them at a time, or run stepcast sweep"}};
  }
  return std::nullopt;
}

std::string AnswerOrReason(const std::string& id, const Question& question) {
  try {
    if (const auto mistakes = TooManyCombinations(question)) {
      return report::MistakesLine(id, *mistakes);
    }
    return Answer(id, question);
  } catch (const std::bad_alloc&) {
    return report::FailureLine(id, "out of memory");
  } catch (const std::exception& error) {
    return report::FailureLine(id, error.what());
  }
}

bool Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Reads the next line; false at the end. Of an endless line, only as much is kept as a file may
// have, which makes it an invalid question.
bool ReadLine(std::string& line) {
  using Traits = std::char_traits<char>;
  line.clear();
  std::streambuf& input = *std::cin.rdbuf();
  for (;;) {
    const Traits::int_type next = input.sbumpc();
    if (Traits::eq_int_type(next, Traits::eof())) return !line.empty();
    const char c = Traits::to_char_type(next);
    if (c == '\n') return true;
    if (line.size() < kLargestInputFile) line += c;
  }
}

}  // namespace

Outcome Serve() {
  constexpr int kMostOthers = 100;
  int others = 0;  // consecutive lines that are not questions
  for (std::string line; ReadLine(line);) {
    const formats::ReadQuestion read = formats::ParseQuestion(line);
    std::string answer;
    if (!read.question) {
      ++others;
      answer = report::MistakesLine(read.id, read.question.error());
    } else {
      others = 0;
      // On a separate thread, so that files read for earlier questions do not count as this
      // question's (base/files.h).
      std::thread([&] { answer = AnswerOrReason(read.id, *read.question); }).join();
    }
    if (!Write(answer)) {
      if (errno == EPIPE) break;  // the reader has seen enough
      return Failed(fmt::format("cannot write the output: {}", std::strerror(errno)));
    }
    if (others == kMostOthers) {
      return WrongInput(
          {{"question.too-many-others",
            {"stdin", 0, 0},
            fmt::format("{} lines in a row are no questions: the rest is not read", kMostOthers),
            "send a JSON object on each line, as docs/library.md has it"}});
    }
  }
  return {};
}

}  // namespace stepcast::cli
