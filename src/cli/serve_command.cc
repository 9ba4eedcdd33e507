#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
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
#include "src/base/question.h"
#include "src/cli/commands.h"
#include "src/cli/outcome.h"
#include "src/formats/question.h"
#include "src/planner/sweep_grid.h"
#include "src/report/answers.h"
#include "src/stepcast.h"

namespace stepcast::cli {
namespace {

// The values of a question.
struct Asked {
  std::string scenario, other;  // formats::kPathOrObject
  std::vector<std::string> set, other_set;
  bool max_micro_batch = false;
  library::PlanQuestion plan;  // `sweep` and `emit` use its `vary`, `folder` and `force`

  // The settings of each question, by its name.
  std::map<std::string, Question> Questions();
};

std::map<std::string, Question> Asked::Questions() {
  std::map<std::string, Question> questions;
  for (const char* name : {"compare", "emit", "explain", "memory", "plan", "simulate", "sweep"}) {
    questions[name].Option("--scenario", &scenario, formats::kPathOrObject, "").Required();
  }
  const auto add_folder = [this](Question& question) -> QuestionSetting& {
    return question.Option("--folder", &plan.folder, kFolder, "");
  };
  add_folder(questions["emit"]).Required();
  questions["sweep"].Option("--vary", &plan.vary, "KEY=VALUES", "").Required();
  for (auto& [name, question] : questions) question.Option("--set", &set, "KEY=VALUE", "");
  questions["memory"].Flag("--max-micro-batch", &max_micro_batch, "");
  questions["compare"].Option("--other", &other, formats::kPathOrObject, "");
  questions["compare"].Option("--other-set", &other_set, "KEY=VALUE", "");
  questions["emit"].Flag("--force", &plan.force, "");
  plan.DescribeGoal(questions["plan"]);
  plan.DescribeAnswer(questions["plan"]);
  add_folder(questions["plan"]);
  questions["plan"].Flag("--force", &plan.force, "");
  return questions;
}

library::Input InputOf(const std::string& scenario, const std::vector<std::string>& set) {
  const bool object = formats::IsObject(scenario);
  return {
      .path = object ? "" : scenario, .text = object ? scenario : "", .title = "dict", .set = set};
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

std::string Answer(const std::string& id, const std::string& ask, const Asked& asked) {
  const library::Input input = InputOf(asked.scenario, asked.set);
  if (ask == "simulate") return LineOf(id, library::Simulate(input));
  if (ask == "sweep") return LineOf(id, library::Sweep(input, asked.plan.vary));
  if (ask == "plan") return LineOf(id, library::Plan(input, asked.plan));
  if (ask == "memory") return LineOf(id, library::Memory(input, asked.max_micro_batch));
  if (ask == "explain") return LineOf(id, library::Explain(input));
  if (ask == "emit") return LineOf(id, library::Emit(input, asked.plan.folder, asked.plan.force));
  const std::string& other = asked.other.empty() ? asked.scenario : asked.other;
  return LineOf(id, library::Compare(input, InputOf(other, asked.other_set)));
}

// A limit on the combinations of a question, since other questions wait for it: at most a minute or
// two of work. Mistakes in the values are reported where they are read.
std::optional<Diagnostics> TooManyCombinations(const std::vector<std::string>& vary) {
  constexpr std::size_t kMost = 20'000;
  std::size_t combinations = 1;
  for (const std::string& text : vary) {
    const auto axis = planner::ParseSweepAxis(text);
    if (!axis || axis->all) continue;
    combinations *= std::clamp<std::size_t>(axis->values.size(), 1, kMost + 1);
    if (combinations <= kMost) continue;
    return Diagnostics{{"question.too-large",
                        {"question", 0, 0},
                        fmt::format("the values of 'vary' form more than {} combinations", kMost),
                        "divide the question into several questions, or run stepcast sweep"}};
  }
  return std::nullopt;
}

std::string AnswerOrReason(const std::string& id, const std::string& ask, const Asked& asked) {
  try {
    if (const auto mistakes = TooManyCombinations(asked.plan.vary)) {
      return report::MistakesLine(id, *mistakes);
    }
    return Answer(id, ask, asked);
  } catch (const std::bad_alloc&) {
    return report::FailureLine(id, "out of memory");
  } catch (const std::exception& error) {
    return report::FailureLine(id, error.what());
  }
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

// Answers questions from stdin, one per line, on stdout in order, until stdin ends. Each answer is
// written as soon as it is ready. Unlike all other commands, this one prints directly.
Outcome Serve() {
  constexpr int kMostOthers = 100;
  int others = 0;  // consecutive lines that are not questions
  for (std::string line; ReadLine(line);) {
    Asked asked;
    const formats::ReadQuestion read = formats::ParseQuestion(line, asked.Questions());
    std::string answer;
    if (!read.ask) {
      ++others;
      answer = report::MistakesLine(read.id, read.ask.error());
    } else {
      others = 0;
      // On a separate thread, so that files read for earlier questions do not count as this
      // question's (base/files.h).
      std::thread([&] { answer = AnswerOrReason(read.id, *read.ask, asked); }).join();
    }
    if (!WriteAll(STDOUT_FILENO, answer)) {
      if (errno == EPIPE) break;  // the reader has seen enough
      return Failed(fmt::format("cannot write the output: {}", std::strerror(errno)));
    }
    if (others == kMostOthers) {
      return WrongInput(
          "question.too-many-others", "stdin",
          fmt::format(
              "stepcast stopped reading, because {} consecutive lines were not valid questions",
              kMostOthers),
          "send one JSON object per line, as docs/library.md describes");
    }
  }
  return {};
}

}  // namespace

Command ServeCommand() { return {.name = "serve", .question = {}, .run = Serve}; }

}  // namespace stepcast::cli
