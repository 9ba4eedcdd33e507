#include "src/cli/calibrate_import_command.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "src/base/diagnostic.h"
#include "src/base/text_file.h"
#include "src/cli/collective_words.h"
#include "src/cli/output_text.h"
#include "src/formats/nccl_tests.h"
#include "src/formats/nccl_tests_profile.h"
#include "src/report/calibration_yaml.h"

namespace stepcast::cli {
namespace {

// "h100" of "logs/h100.txt".

}  // namespace

Outcome CalibrateImport(const CalibrateImportOptions& options) {
  Diagnostics faults;
  formats::NcclTestsOptions import;
  if (!options.op.empty()) import.collective = ReadCollective("--op", options.op, faults);
  import.ranks = options.ranks;
  import.ranks_per_node = options.ranks_per_node;
  import.in_place = options.in_place;
  import.keep_noise = options.keep_noise;
  import.gpu = options.gpu;
  import.name = options.name.empty() ? std::filesystem::path(options.logs.front()).stem().string()
                                     : options.name;
  std::vector<formats::NcclTestsRun> runs;
  for (const std::string& log : options.logs) {
    const auto text = ReadTextFile(log, faults);
    if (!text) continue;
    auto found = formats::ParseNcclTests(*text, log);
    if (found) {
      std::move(found->begin(), found->end(), std::back_inserter(runs));
    } else {
      faults.insert(faults.end(), found.error().begin(), found.error().end());
    }
  }
  if (!faults.empty()) return WrongInput(faults);
  const auto imported = formats::ProfileOf(runs, import);
  if (!imported) return WrongInput(imported.error());
  Outcome outcome = PutText(options.output, report::CalibrationYaml(imported->profile));
  if (outcome.status == kDone) {
    for (const std::string& note : imported->notes) outcome.messages += "note: " + note + "\n";
  }
  return outcome;
}

}  // namespace stepcast::cli
