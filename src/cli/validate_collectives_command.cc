#include "src/cli/validate_collectives_command.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "fmt/format.h"
#include "src/report/collective_accuracy.h"
#include "src/report/output_file.h"
#include "src/validate/collectives.h"

namespace stepcast::cli {
namespace {

constexpr std::string_view kBegin = "<!-- collectives: begin -->\n";
constexpr std::string_view kEnd = "<!-- collectives: end -->\n";

std::optional<Outcome> Update(const std::string& path, const std::string& section) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(kEnd, begin);
  if (!file || end == std::string::npos) {
    return WrongInput(
        {{file ? "command.no-section" : "file.not-found",
          {path, 0, 0},
          file ? "the document has no section for collectives" : "there is no such file",
          "write the lines '<!-- collectives: begin -->' and '<!-- collectives: end "
          "-->' where it is to stand"}});
  }
  auto output = report::OutputFile::Create(path);
  if (!output) return Failed(output.error());
  const std::string whole = text.substr(0, begin + kBegin.size()) + section + text.substr(end);
  if (auto written = output->Write(whole); !written) return Failed(written.error());
  if (auto done = output->Commit(); !done) return Failed(done.error());
  return std::nullopt;
}

}  // namespace

Outcome ValidateCollectives(const ValidateCollectivesOptions& options) {
  const auto accuracy = validate::CompareCollectives();
  if (!accuracy) return WrongInput(accuracy.error());
  if (!options.update.empty()) {
    if (auto failed = Update(options.update, report::CollectiveAccuracyMarkdown(*accuracy))) {
      return *failed;
    }
  }
  Outcome outcome;
  outcome.status = accuracy->MeetsTargets() ? kDone : kAnswerIsNo;
  outcome.output = options.json  ? report::CollectiveAccuracyJson(*accuracy)
                   : options.csv ? report::CollectiveAccuracyCsv(*accuracy)
                                 : report::CollectiveAccuracyText(*accuracy);
  return outcome;
}

}  // namespace stepcast::cli
