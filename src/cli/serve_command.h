#pragma once

#include "src/cli/outcome.h"

namespace stepcast::cli {

// Answers questions (formats/question.h) that come on stdin, a line each, on stdout, in their
// order, until stdin ends. Each is written as soon as it is known: this command alone prints by
// itself.
Outcome Serve();

}  // namespace stepcast::cli
