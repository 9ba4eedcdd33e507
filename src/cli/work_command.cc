#include "src/cli/work_command.h"

#include <utility>

namespace stepcast::cli {

Outcome RunOnThreads(const WorkCommand& command) {
  if (auto end = command.prepare()) return std::move(*end);
  const auto pool = planner::MakeThreadPool(command.work, command.threads);
  return command.run(*pool);
}

}  // namespace stepcast::cli
