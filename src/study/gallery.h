#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/report/pages.h"
#include "src/scenario/published_file.h"
#include "src/scenario/scenario.h"

// Well-known training runs, used by `gallery`: the forecast of a step is compared with the
// published step.
namespace stepcast::study {

struct GalleryEntry {
  std::string name;          // name of the entry's page: "llama-3-405b"
  report::GalleryStep step;  // without the forecast
  scenario::PublishedCase published;
  std::string file;  // the path of the file in calibration/published
};

// Returns an entry for each model of the gallery. The entry has a published step of the model that
// can be simulated and to which no profile was fitted. Among several such steps, the step on the
// most GPUs is chosen, then the step with the most tokens per second. Errors: the errors of
// validate::ReadStoredOutcomes.
Result<std::vector<GalleryEntry>> GalleryEntries();

struct GalleryRun {
  scenario::Scenario scenario;
  forecast::Run run;
};

// Simulates the entry's run. Errors come from the entry's file.
Result<GalleryRun> SimulateEntry(const GalleryEntry& entry);

}  // namespace stepcast::study
