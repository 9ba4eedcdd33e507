#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Questions to `stepcast serve`: one JSON object per line (docs/library.md).
namespace stepcast::formats {

// A scenario in a question: a path or, if that is empty, the text of an object given instead, with
// one line per key.
struct QuestionScenario {
  std::string path;
  std::string text;
};

struct Question {
  std::string ask;  // "simulate" or another of QuestionNames
  QuestionScenario scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  // For compare: the other plan; none if both are of one scenario.
  std::optional<QuestionScenario> other;
  std::vector<std::string> other_set;
  bool max_micro_batch = false;   // for memory
  std::vector<std::string> vary;  // for sweep and plan: "KEY=V1,V2"
  // For plan, named like its options.
  std::string target = "step_time", framework, only, within, deadline, tokens, headroom,
              availability;
  std::vector<std::string> fix;
  std::optional<double> price;
  bool fewer_nodes = false;
  int best = 5, why = 0;
  // For emit, and for plan if given.
  std::string folder;
  bool force = false;
};

struct ReadQuestion {
  std::string id = "null";  // the question's id as JSON, to be copied to the answer
  Result<Question> question;
};

// Errors: question.not-json, question.unknown-key, question.missing-key, question.wrong-type.
ReadQuestion ParseQuestion(std::string_view line);

}  // namespace stepcast::formats
