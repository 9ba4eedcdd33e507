#include "src/cli/option_parts.h"

#include <cctype>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/base/quantity.h"
#include "src/report/table.h"

namespace stepcast::cli {
void AddOutput(Question& question, std::string& file) { question.Option("--output", &file, kFile); }

void AddReport(Question& question, std::string& report) {
  question.Option("--report", &report, kFile);
}

void AddTraceFolder(Question& question, std::string& folder) {
  question.Option("--trace-dir", &folder, kFolder);
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set) {
  question.Argument("SCENARIO", &scenario).Required();
  question.Option("--set", &set, "KEY=VALUE");
}

void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set) {
  question.Argument("SCENARIO", &files.files).Required();
  question.Option("--set", &set, "KEY=VALUE");
  AddImport(question, files);
  question.Option("--save", &files.save, kFile);
  AddColumns(question);
}

void AddImport(Question& question, ScenarioFiles& files) {
  question.Option("--model", &files.model, "MODEL");
  question.Option("--family", &files.family, "FILE");
  question.Option("--cluster", &files.cluster, "TOPOLOGY");
  question.Option("--nodes", &files.nodes, "N");
  question.Option("--gpus", &files.gpus, "GPUS");
  question.Option("--sequence-length", &files.sequence_length, "N");
  question.Option("--global-batch", &files.global_batch, "N");
  question.Option("--variable", &files.variables, "NAME=VALUE");
  question.Option("--function", &files.function, "NAME");
}

bool& AllColumns() {
  static bool all = false;
  return all;
}

void AddColumns(Question& question) { question.Flag("--columns", &AllColumns()); }

void AddNetwork(Question& question, std::string& network) {
  question.Option("--network", &network, "HOW").OneOf({"analytic", "flow", "message"});
}

void AddJsonAndCsv(Question& question, bool& json, bool& csv) {
  question.Flag("--json", &json);
  question.Flag("--csv", &csv).Excludes({"--json"});
}

void AddFitProbability(Question& question, std::optional<double>& probability) {
  question.Option("--fit-probability", &probability, "P").Probability();
}

void AddEmit(Question& question, std::string& folder, bool& force) {
  question.Option("--emit", &folder, kFolder);
  question.Flag("--force", &force).Needs({"--emit"});
}

std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics) {
  // "AllReduce" and "all-reduce" are all_reduce.
  const auto letters = [](std::string_view name) {
    std::string plain;
    for (const char c : name) {
      if (c != '_' && c != '-') {
        plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    return plain;
  };
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (letters(Name(kind)) == letters(word)) return kind;
  }
  std::vector<std::string_view> known;
  for (const CollectiveKind kind : kCollectiveKinds) known.push_back(Name(kind));
  const std::string_view near = NearestWord(word, known);
  diagnostics.push_back({"command.unknown-collective",
                         {option + " " + word, 0, 0},
                         fmt::format("unknown collective: {}", Quoted(word)),
                         near.empty() ? fmt::format("choose from {}", fmt::join(known, ", "))
                                      : fmt::format("did you mean '{}'?", near)});
  return std::nullopt;
}

std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics) {
  const Location location{option + " " + text, 0, 0};
  const auto size = ParseBytes(text);
  if (!size) {
    diagnostics.push_back(
        {"command.bad-quantity", location, size.error().message, size.error().hint});
    return std::nullopt;
  }
  if (*size > Bytes(0)) return *size;
  diagnostics.push_back({"command.bad-quantity", location,
                         fmt::format("the size must be more than zero: {}", Quoted(text)),
                         "write for example '1 KiB'"});
  return std::nullopt;
}

}  // namespace stepcast::cli
