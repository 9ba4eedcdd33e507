#pragma once

#include <span>
#include <string>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/scenario/published_file.h"
#include "src/scenario/scenario.h"

// Well-known training runs: the forecast of a step, compared with the published step. Used by
// `gallery`.
namespace stepcast::study {

struct GalleryEntry {
  const char* name;       // "llama3-405b", of its page
  const char* title;      // "Llama 3 405B"
  const char* source;     // a file of calibration/published, without .yaml
  const char* row;        // the case of that file
  const char* published;  // where: "arXiv 2407.21783, table 4"
};

std::span<const GalleryEntry> GalleryEntries();

struct GalleryRun {
  scenario::PublishedCase published;
  scenario::Scenario scenario;
  forecast::Run run;
};

// Simulates the entry's run. Errors come from the entry's files.
Result<GalleryRun> SimulateEntry(const GalleryEntry& entry);

}  // namespace stepcast::study
