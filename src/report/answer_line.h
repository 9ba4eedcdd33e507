#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

// What `stepcast serve` writes: a JSON object on a line for each question (docs/library.md).
namespace stepcast::report {

// `id`: the question's, as JSON; `document`: the answer, as a command prints it with --json.
std::string AnswerLine(std::string_view id, std::string_view document);
// Mistakes in the question or in what it names.
std::string MistakesLine(std::string_view id, const Diagnostics& mistakes);
// Why there is no answer though the question is right.
std::string FailureLine(std::string_view id, const std::string& reason);

}  // namespace stepcast::report
