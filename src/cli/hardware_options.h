#pragma once

#include "src/cli/calibrate_command.h"
#include "src/cli/calibrate_import_command.h"
#include "src/cli/calibrate_runs_command.h"
#include "src/cli/execute_command.h"
#include "src/cli/validate_collectives_command.h"
#include "src/cli/validate_command.h"
#include "src/cli/validate_published_command.h"

namespace CLI {
class App;
}

// The options of commands that measure, or hold forecasts to what was measured.
namespace stepcast::cli {

// What `validate collectives` and `validate published` are called inside.
inline constexpr const char* kValidateCollectives = "validate-collectives";
inline constexpr const char* kValidatePublished = "validate-published";

void AddExecute(CLI::App& app, ExecuteOptions& options);
void AddValidate(CLI::App& app, ValidateOptions& options);
void AddValidateCollectives(CLI::App& app, ValidateCollectivesOptions& options);
void AddValidatePublished(CLI::App& app, ValidatePublishedOptions& options);
// --backend is required, but not by `import` and `runs`: RunCommandLine sees to it.
void AddCalibrate(CLI::App& app, CalibrateOptions& options, CalibrateImportOptions& import_options,
                  CalibrateRunsOptions& runs_options);

}  // namespace stepcast::cli
