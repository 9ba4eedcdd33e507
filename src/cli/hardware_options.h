#pragma once

#include "src/cli/calibrate_import_command.h"
#include "src/cli/calibrate_runs_command.h"
#include "src/cli/command.h"
#include "src/cli/hardware_request.h"
#include "src/cli/validate_collectives_command.h"
#include "src/cli/validate_published_command.h"

// The options of commands that measure, or hold forecasts to what was measured.
namespace stepcast::cli {

// What `validate collectives` and `validate published` are called inside.
inline constexpr const char* kValidateCollectives = "validate-collectives";
inline constexpr const char* kValidatePublished = "validate-published";

void AddExecute(Command app, ExecuteOptions& options);
void AddValidate(Command app, ValidateOptions& options);
void AddValidateCollectives(Command app, ValidateCollectivesOptions& options);
void AddValidatePublished(Command app, ValidatePublishedOptions& options);
// --backend is required, but not by `import` and `runs`: RunCommandLine sees to it.
void AddCalibrate(Command app, CalibrateOptions& options, CalibrateImportOptions& import_options,
                  CalibrateRunsOptions& runs_options);

}  // namespace stepcast::cli
