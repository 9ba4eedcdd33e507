#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/report/pages.h"
#include "src/report/table.h"
#include "src/study/gallery.h"

namespace stepcast::cli {
namespace {

struct GalleryOptions {
  std::string folder;  // for pages; empty: none are written
};

std::optional<Outcome> WritePage(const std::string& file,
                                 const std::function<std::string()>& text) {
  OptionalOutput page;
  if (auto failed = page.Create(file)) return failed;
  return page.Write(text);
}

Outcome Gallery(const GalleryOptions& options) {
  OutputFolder folder;
  if (auto failed = folder.Create(options.folder)) return *std::move(failed);
  std::vector<report::GalleryStep> steps;
  const auto entries = study::GalleryEntries();
  if (!entries) return WrongInput(entries.error());
  for (const study::GalleryEntry& entry : *entries) {
    const WorkNotice notice(fmt::format("simulating a step of {}", entry.step.title));
    const auto simulated = study::SimulateEntry(entry);
    if (!simulated) return WrongInput(simulated.error());
    report::GalleryStep step = entry.step;
    step.forecast = simulated->run.forecast;
    report::DescribeRun(simulated->scenario, step);
    if (folder.asked()) {
      step.page = fmt::format("{}.html", entry.name);
      if (auto failed = WritePage(folder.File(step.page), [&] {
            return report::SimulatePage(simulated->scenario, simulated->run);
          })) {
        return *std::move(failed);
      }
    }
    steps.push_back(std::move(step));
  }
  if (folder.asked()) {
    if (auto failed =
            WritePage(folder.File("index.html"), [&] { return report::GalleryPage(steps); })) {
      return *std::move(failed);
    }
  }
  Outcome outcome;
  outcome.output = report::Wrapped(report::GalleryText(steps));
  return outcome;
}

}  // namespace

Command GalleryCommand() {
  const auto describe = [](Question& question, GalleryOptions& options) {
    question.Option("--report-dir", &options.folder, kFolder);
  };
  return MakeCommand<GalleryOptions>(
      "gallery", describe, [](const GalleryOptions& options) { return Gallery(options); });
}

}  // namespace stepcast::cli
