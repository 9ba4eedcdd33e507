#include "src/cli/serve_command.h"

#include <unistd.h>

#include <cerrno>
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

#include "fmt/format.h"
#include "src/base/text_file.h"
#include "src/formats/question.h"
#include "src/report/answer_line.h"
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

std::string AnswerOrReason(std::string_view line) {
  const formats::ReadQuestion read = formats::ParseQuestion(line);
  if (!read.question) return report::MistakesLine(read.id, read.question.error());
  try {
    return Answer(read.id, *read.question);
  } catch (const std::bad_alloc&) {
    return report::FailureLine(read.id, "out of memory");
  } catch (const std::exception& error) {
    return report::FailureLine(read.id, error.what());
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

// The next line; false: there is none. Of a line without an end no more is kept than a file may
// have, which is no question then.
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
  for (std::string line; ReadLine(line);) {
    std::string answer;
    // On a thread of its own, so that the files that earlier questions have read do not count as
    // this one's (base/files_read.h).
    std::thread([&] { answer = AnswerOrReason(line); }).join();
    if (Write(answer)) continue;
    if (errno == EPIPE) break;  // the reader has seen enough
    return Failed(fmt::format("cannot write the output: {}", std::strerror(errno)));
  }
  return {};
}

}  // namespace stepcast::cli
