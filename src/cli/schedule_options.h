#pragma once

#include "src/cli/command.h"
#include "src/cli/schedule_command.h"

namespace stepcast::cli {

void AddSchedule(Command app, ScheduleOptions& options);

}  // namespace stepcast::cli
