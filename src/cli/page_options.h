#pragma once

#include <string>
#include <vector>

#include "src/cli/command.h"

// The options of commands that print what other programs read of the pages of help.
namespace stepcast::cli {

struct CompletionOptions {
  std::string shell;
};

struct ManualOptions {
  std::vector<std::string> command;  // "calibrate", "import"; empty: the program itself
  bool list = false;                 // the names of all pages, instead of one
};

void AddCompletion(Command app, CompletionOptions& options);
void AddManual(Command app, ManualOptions& options);

// Errors: command.unknown-command.
Outcome PrintCompletion(const CompletionOptions& options);
Outcome PrintManual(const ManualOptions& options, const std::vector<CommandPage>& pages,
                    const std::string& version);

}  // namespace stepcast::cli
