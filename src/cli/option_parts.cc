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
void AddOutput(Question& question, std::string& file) {
  question.Option("--output", &file, kFile, "Write to FILE instead of stdout");
}

void AddReport(Question& question, std::string& report) {
  question.Option("--report", &report, kFile, "Also write a self-contained HTML page with charts");
}

void AddTraceFolder(Question& question, std::string& folder) {
  question.Option(
      "--trace-dir", &folder, kFolder,
      "Also write one trace file for each rank into FOLDER, for Holistic Trace Analysis");
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set) {
  question.Argument("SCENARIO", &scenario, "Scenario file (YAML; docs/formats.md)").Required();
  question.Option("--set", &set, "KEY=VALUE",
                  "Set a key of the scenario by its dotted path; null restores the default. Can be "
                  "repeated");
}

void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set) {
  question
      .Argument(
          "SCENARIO", &files.files,
          "A scenario (YAML; docs/formats.md), a model (its name here or on the Hub, its model "
          "file or its config.json), or configurations of other programs (docs/foreign.md)")
      .Required();
  question.Option("--set", &set, "KEY=VALUE",
                  "Set a key of the scenario by its dotted path; null restores the default. Can be "
                  "repeated");
  AddImport(question, files);
  question.Option("--save", &files.save, kFile,
                  "Also write the scenario made from a model's name or from other programs' files");
  AddColumns(question);
}

void AddImport(Question& question, ScenarioFiles& files) {
  question.Option("--model", &files.model, "MODEL",
                  "The model: a config.json, a model file, or a name (stepcast list models)");
  question.Option("--family", &files.family, "FILE",
                  "The model family's file, which describes how to read config.json "
                  "(docs/formats/model.md)");
  question.Option("--cluster", &files.cluster, "TOPOLOGY",
                  "The cluster: a topology file, or a name (stepcast list topologies)");
  question.Option("--nodes", &files.nodes, "N", "Number of nodes of the job");
  question.Option("--gpus", &files.gpus, "GPUS",
                  "The cluster as a number of GPUs: '4 x rtx-4090' (stepcast list gpus)");
  question.Option("--sequence-length", &files.sequence_length, "N", "Tokens in a sequence");
  question.Option("--global-batch", &files.global_batch, "N", "Sequences in a step");
  question.Option("--variable", &files.variables, "NAME=VALUE",
                  "An environment variable of another program's script; 1=VALUE is its first "
                  "argument. Can be repeated");
  question.Option("--function", &files.function, "NAME",
                  "The function of a Python file that returns the configuration");
}

bool& AllColumns() {
  static bool all = false;
  return all;
}

void AddColumns(Question& question) {
  question.Flag("--columns", &AllColumns(),
                "Show all columns of tables, even if lines become wider than the terminal");
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
              "Exit with 4 if the probability that the plan fits is below P, from 0 to 1 "
              "(docs/uncertainty.md)")
      .Probability();
}

void AddEmit(Question& question, std::string& folder, bool& force) {
  question.Option("--emit", &folder, kFolder,
                  "Also write the plan into FOLDER: plan.json, the framework's files, scripts");
  question.Flag("--force", &force, "Replace the plan in FOLDER, if FOLDER contains nothing else")
      .Needs({"--emit"});
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
