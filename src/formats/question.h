#pragma once

#include <map>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/base/question.h"

// Parses questions to `stepcast serve`, one JSON object per line (docs/library.md).
namespace stepcast::formats {

// The type of a setting that is a path or an object. The value is stored as the path, or as the
// text of the object with one line per key (IsObject).
inline constexpr const char* kPathOrObject = "SCENARIO";
// Returns whether a value of type kPathOrObject is an object. (No path begins with '{'.)
inline bool IsObject(std::string_view value) { return value.starts_with('{'); }

struct ReadQuestion {
  std::string id = "null";  // id of the question as JSON, to be copied to the answer
  Result<std::string> ask;  // name of the question, whose variables have been set
};

// Parses a question. `questions` are the possible questions by name. The values of settings of the
// type "KEY=VALUE" or "KEY=VALUES" are objects. Errors: question.not-json, question.unknown-key,
// question.missing-key, question.wrong-type.
ReadQuestion ParseQuestion(std::string_view line, const std::map<std::string, Question>& questions);

}  // namespace stepcast::formats
