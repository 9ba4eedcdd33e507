#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Questions as `stepcast serve` reads them: a JSON object on a line (docs/library.md).
namespace stepcast::formats {

// A scenario in a question: a path or, where that is empty, the text of an object that stood in its
// place, a line for each of its keys.
struct QuestionScenario {
  std::string path;
  std::string text;
};

struct Question {
  std::string ask;  // "simulate": one of the names that QuestionNames lists
  QuestionScenario scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  // Of compare: the other plan; none where both are of one scenario.
  std::optional<QuestionScenario> other;
  std::vector<std::string> other_set;
  bool max_micro_batch = false;   // of memory
  std::vector<std::string> vary;  // of sweep and plan: "KEY=V1,V2"
  // Of plan, as its options are called.
  std::string target = "step_time", framework, only, within, deadline, tokens, headroom,
              availability;
  std::vector<std::string> fix;
  std::optional<double> price;
  bool fewer_nodes = false;
  int best = 5, why = 0;
  // Of emit, and of plan where it is given.
  std::string folder;
  bool force = false;
};

struct ReadQuestion {
  std::string id = "null";  // as JSON; what the question gave, so that its answer can be told
  Result<Question> question;
};

// Errors: question.not-json, question.unknown-key, question.missing-key, question.wrong-type.
ReadQuestion ParseQuestion(std::string_view line);

}  // namespace stepcast::formats
