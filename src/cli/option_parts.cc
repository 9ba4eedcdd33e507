#include "src/cli/option_parts.h"

#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/base/quantity.h"
#include "src/report/table.h"

namespace stepcast::cli {
void AddOutput(Question& question, std::string& file) {
  question.Option("--output", &file, kFile, "Write to FILE instead of stdout");
}

void AddReport(Question& question, std::string& report) {
  question.Option("--report", &report, kFile,
                  "Also write a page with charts, which needs no other file");
}

void AddTraceFolder(Question& question, std::string& folder) {
  question.Option("--trace-dir", &folder, kFolder,
                  "Also write traces by rank into a folder, for Holistic Trace Analysis");
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set) {
  question.Argument("SCENARIO", &scenario, "Scenario file (YAML; docs/formats.md)").Required();
  question.Option("--set", &set, "KEY=VALUE",
                  "Override a key of the scenario by its dotted path, as often as needed; "
                  "null: the key's default");
}

void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set) {
  question
      .Argument("SCENARIO", &files.files,
                "Scenario (YAML; docs/formats.md), a model (its name, here or on the Hub, or its "
                "config.json), or configurations of other programs (docs/foreign.md)")
      .Required();
  question.Option("--set", &set, "KEY=VALUE",
                  "Override a key of the scenario by its dotted path, as often as needed; "
                  "null: the key's default");
  AddImport(question, files);
  question.Option("--save", &files.save, kFile,
                  "Also write the scenario that a model's name or other programs' files make");
  AddColumns(question);
}

void AddImport(Question& question, ScenarioFiles& files) {
  question.Option("--model", &files.model, "MODEL",
                  "The model: a config.json or model file, or a name (stepcast list models)");
  question.Option(
      "--family", &files.family, "FILE",
      "A family's own file, which reads the model's config.json (docs/formats/model.md)");
  question.Option("--cluster", &files.cluster, "TOPOLOGY",
                  "The cluster: a topology file, or a name (stepcast list topologies)");
  question.Option("--nodes", &files.nodes, "N", "How many nodes the job has");
  question.Option("--gpus", &files.gpus, "GPUS",
                  "The cluster by its GPUs: '4 x rtx-4090' (stepcast list gpus)");
  question.Option("--sequence-length", &files.sequence_length, "N", "Tokens of a sequence");
  question.Option("--global-batch", &files.global_batch, "N", "Sequences of a step");
  question.Option("--variable", &files.variables, "NAME=VALUE",
                  "A variable that a script of another program is started with; 1=VALUE: its first "
                  "argument");
  question.Option("--function", &files.function, "NAME",
                  "Which function of a Python file makes the configuration");
}

bool& AllColumns() {
  static bool all = false;
  return all;
}

void AddColumns(Question& question) {
  question.Flag("--columns", &AllColumns(),
                "Show all columns of tables, in lines that may be wider than the terminal");
}

void AddNetwork(Question& question, std::string& network, const char* help) {
  question.Option("--network", &network, "HOW", help).OneOf({"analytic", "flow", "message"});
}

void AddJsonAndCsv(Question& question, bool& json, bool& csv) {
  question.Flag("--json", &json, "Print one JSON document");
  question.Flag("--csv", &csv, "Print CSV (RFC 4180)").Excludes({"--json"});
}

void AddFitProbability(Question& question, std::optional<double>& probability) {
  question
      .Option("--fit-probability", &probability, "P",
              "Exit with 4 where the plan fits with a lower probability than P, from 0 to 1 "
              "(docs/uncertainty.md)")
      .Probability();
}

void AddEmit(Question& question, std::string& folder, bool& force) {
  question.Option("--emit", &folder, kFolder,
                  "Also write the plan into FOLDER: plan.json, files of the framework, scripts");
  question.Flag("--force", &force, "Replace the plan that FOLDER holds, if it holds nothing else")
      .Needs({"--emit"});
}

std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics) {
  if (const auto kind = CollectiveKindFromName(word)) return kind;
  std::vector<std::string_view> known;
  for (const CollectiveKind kind : kCollectiveKinds) known.push_back(Name(kind));
  const std::string_view near = NearestWord(word, known);
  diagnostics.push_back({"command.unknown-collective",
                         {option + " " + word, 0, 0},
                         fmt::format("unknown collective: {}", Quoted(word)),
                         near.empty() ? fmt::format("there are: {}", fmt::join(known, ", "))
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
                         fmt::format("a size must be above zero: {}", Quoted(text)),
                         "write for example '1 KiB'"});
  return std::nullopt;
}

}  // namespace stepcast::cli
