#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/scenario/published_file.h"
#include "src/scenario/scenario.h"

// Well-known training runs, used by `gallery`: the forecast of a step is compared with the
// published step.
namespace stepcast::study {

struct GalleryEntry {
  std::string name;    // "llama-3-405b", of its page
  std::string title;   // "Llama 3 405B"
  std::string source;  // of the published step: "Narayanan et al. 2021, arXiv 2104.04473, ..."
  std::string row;     // "megatron-sc21 sc21_t1_530B": the file in calibration/published, the case
  scenario::PublishedCase published;
  std::string file;  // the path of that file
};

// Returns an entry for each model of the gallery. Its row is a published step that can be simulated
// and to which no profile was fitted. Among these steps, it ran on the most GPUs; of several, it
// trains the most tokens per second. Errors: those of validate::ReadStoredOutcomes.
Result<std::vector<GalleryEntry>> GalleryEntries();

struct GalleryRun {
  scenario::Scenario scenario;
  forecast::Run run;
};

// Simulates the entry's run. Errors come from the entry's file.
Result<GalleryRun> SimulateEntry(const GalleryEntry& entry);

}  // namespace stepcast::study
