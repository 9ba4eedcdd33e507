#include "src/study/gallery.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/scenario/data_root.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/load.h"
#include "src/validate/stored_outcomes.h"

namespace stepcast::study {
namespace {

struct GalleryModel {
  const char* name;
  const char* title;
  std::vector<std::string> models;  // their names in calibration/published
  const char* source = nullptr;     // of the chosen row, if its file has several sources
};

std::vector<GalleryModel> Models() {
  return {{"gpt-3-175b", "GPT-3 175B", {"gpt-175b", "gpt3-175b"}},
          {"bloom-176b",
           "BLOOM 176B (prototype)",
           {"gpt-l70-h14336-a64", "gpt-l70-h14336-a112", "gpt-l70-h14336-a128"}},
          {"mt-nlg-530b", "MT-NLG 530B", {"gpt-530b"}},
          {"mixtral-8x22b", "Mixtral 8x22B", {"mixtral-8x22b"}},
          {"llama-3-405b",
           "Llama 3 405B",
           {"llama3.1-405b"},
           "Grattafiori et al. 2024, arXiv 2407.21783, Table 4"},
          {"deepseek-v3", "DeepSeek-V3", {"deepseek-v3", "deepseek-v3-mtp"}},
          {"qwen3-235b", "Qwen3 235B-A22B", {"qwen3-235b-a22b"}}};
}

}  // namespace

Result<std::vector<GalleryEntry>> GalleryEntries() {
  const auto accuracy = validate::ReadStoredOutcomes("");
  if (!accuracy) return tl::unexpected(accuracy.error());
  std::vector<GalleryEntry> entries;
  for (const GalleryModel& model : Models()) {
    const validate::PublishedOutcome* chosen = nullptr;
    const auto rate = [&](const validate::PublishedOutcome& outcome) {
      return std::tuple(outcome.devices,
                        outcome.tokens / accuracy->CaseOf(outcome).step_time->seconds());
    };
    for (const validate::PublishedOutcome& outcome : accuracy->outcomes) {
      const scenario::PublishedCase& row = accuracy->CaseOf(outcome);
      const bool of_model =
          std::find(model.models.begin(), model.models.end(), outcome.model) != model.models.end();
      if (!of_model || !row.step_time || row.split == scenario::Split::kFit ||
          accuracy->sources[outcome.source].predicted) {
        continue;
      }
      if (chosen == nullptr || rate(*chosen) < rate(outcome)) chosen = &outcome;
    }
    STEPCAST_CHECK(chosen != nullptr,
                   "each model of the gallery must have at least one published step");
    const scenario::PublishedSource& source = accuracy->sources[chosen->source];
    const scenario::PublishedCase& row = accuracy->CaseOf(*chosen);
    entries.push_back({.name = model.name,
                       .step = {.title = model.title,
                                .source = model.source != nullptr ? model.source : source.source,
                                .row = fmt::format("{} {}", source.name, row.name),
                                .stand_ins = row.stand_ins,
                                .published = *row.step_time},
                       .published = row,
                       .file = fmt::format("{}/calibration/published/{}.yaml", scenario::DataRoot(),
                                           source.name)});
  }
  return entries;
}

Result<GalleryRun> SimulateEntry(const GalleryEntry& entry) {
  scenario::InputCache cache;
  auto scenario = scenario::LoadTree(entry.published.scenario, entry.file, cache);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  scenario->name = entry.step.title;
  auto run = forecast::Simulate(*scenario);
  if (!run) return tl::unexpected(std::move(run.error()));
  return GalleryRun{*std::move(scenario), *std::move(run)};
}

}  // namespace stepcast::study
