#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/cli/command_options.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/report/gallery_page.h"
#include "src/report/pages.h"
#include "src/report/table.h"
#include "src/study/gallery.h"

namespace stepcast::cli {
namespace {

constexpr const char* kGalleryAbout =
    "Forecasts well-known training runs, beside their published step times: GPT-3, BLOOM, MT-NLG,\n"
    "Mixtral, Llama 3, DeepSeek-V3 and Qwen3.";

constexpr const char* kGalleryFooter =
    "Rows and sources are those of calibration/published. With --report-dir, index.html shows all\n"
    "runs, and each opens the page of its forecast.\n"
    "\n"
    "Example:\n"
    "  stepcast gallery\n"
    "  stepcast gallery --report-dir gallery\n"
    "\n";

std::optional<Outcome> WritePage(const std::string& file,
                                 const std::function<std::string()>& text) {
  OptionalOutput page;
  if (auto failed = page.Create(file)) return failed;
  return page.Write(text);
}

}  // namespace

void AddGallery(Command app, GalleryOptions& options) {
  Command command = app.Add("gallery", kGalleryAbout, kGalleryFooter);
  command.AddOption("--report-dir", options.folder, "Also write pages into a folder: index.html")
      .Type(kFolder);
}

Outcome Gallery(const GalleryOptions& options) {
  OutputFolder folder;
  if (auto failed = folder.Create(options.folder)) return *std::move(failed);
  std::vector<report::GalleryStep> steps;
  for (const study::GalleryEntry& entry : study::GalleryEntries()) {
    const WorkNotice notice(fmt::format("simulating a step of {}", entry.title));
    const auto simulated = study::SimulateEntry(entry);
    if (!simulated) return WrongInput(simulated.error());
    report::GalleryStep step{.title = entry.title,
                             .page = {},
                             .machine = {},
                             .plan = {},
                             .source = simulated->source,
                             .row = entry.row,
                             .stand_ins = simulated->published.stand_ins,
                             .published = *simulated->published.step_time,
                             .forecast = simulated->run.forecast};
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
    if (auto failed = WritePage(folder.File("index.html"),
                                [&] { return report::GalleryPage(steps); })) {
      return *std::move(failed);
    }
  }
  Outcome outcome;
  outcome.output = report::Wrapped(report::GalleryText(steps));
  return outcome;
}

}  // namespace stepcast::cli
