#include "src/cli/option_parts.h"

#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/collective_kind.h"
#include "src/report/table.h"

namespace stepcast::cli {

Option AddRepeated(Command command, const std::string& name, std::vector<std::string>& values,
                   const std::string& type, const std::string& help) {
  return command.AddOption(name, values, help).Type(type).Repeated();
}

Option AddCount(Command command, const std::string& name, int& value, int least, int most,
                const std::string& help) {
  return command.AddOption(name, value, help).Type("N").Between(least, most);
}

Option AddCount(Command command, const std::string& name, std::optional<int>& value, int least,
                int most, const std::string& help) {
  return command.AddOption(name, value, help).Type("N").Between(least, most);
}

Option AddOutput(Command command, const std::string& name, std::string& file,
                 const std::string& help) {
  return command.AddOption(name, file, help).Type(kFile);
}

Option AddOutput(Command command, std::string& file) {
  return AddOutput(command, "--output", file, "Write to FILE instead of stdout");
}

Option AddReport(Command command, std::string& report) {
  return AddOutput(command, "--report", report,
                   "Also write a page with charts, which needs no other file");
}

Option AddTraceFolder(Command command, std::string& folder) {
  return command
      .AddOption("--trace-dir", folder,
                 "Also write traces by rank into a folder, for Holistic Trace Analysis")
      .Type(kFolder);
}

std::string CollectiveNames() {
  std::vector<std::string_view> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(Name(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

void AddScenario(Command command, std::string& scenario, std::vector<std::string>& set) {
  command.AddOption("SCENARIO", scenario, "Scenario file (YAML; docs/formats.md)").Required();
  AddRepeated(command, "--set", set, "KEY=VALUE",
              "Override a key of the scenario by its dotted path, as often as needed; "
              "null: the key's default");
}

void AddScenarioFiles(Command command, ScenarioFiles& files, std::vector<std::string>& set) {
  command
      .AddOption("SCENARIO", files.files,
                 "Scenario (YAML; docs/formats.md), a model (its name, here or on the Hub, or its "
                 "config.json), or configurations of other programs (docs/foreign.md)")
      .Required();
  AddRepeated(command, "--set", set, "KEY=VALUE",
              "Override a key of the scenario by its dotted path, as often as needed; "
              "null: the key's default");
  AddImport(command, files);
  AddOutput(command, "--save", files.save,
            "Also write the scenario that a model's name or other programs' files make");
  AddColumns(command);
}

void AddImport(Command command, ScenarioFiles& files) {
  command
      .AddOption("--model", files.model,
                 "The model: a config.json or model file, or a name (stepcast list models)")
      .Type("MODEL");
  command
      .AddOption("--family", files.family,
                 "A family's own file, which reads the model's config.json (docs/formats/model.md)")
      .Type("FILE");
  command
      .AddOption("--cluster", files.cluster,
                 "The cluster: a topology file, or a name (stepcast list topologies)")
      .Type("TOPOLOGY");
  command.AddOption("--nodes", files.nodes, "How many nodes the job has").Type("N");
  command
      .AddOption("--gpus", files.gpus,
                 "The cluster by its GPUs: '4 x rtx-4090' (stepcast list gpus)")
      .Type("GPUS");
  command.AddOption("--sequence-length", files.sequence_length, "Tokens of a sequence").Type("N");
  command.AddOption("--global-batch", files.global_batch, "Sequences of a step").Type("N");
  AddRepeated(command, "--variable", files.variables, "NAME=VALUE",
              "A variable that a script of another program is started with; 1=VALUE: its first "
              "argument");
  command
      .AddOption("--function", files.function,
                 "Which function of a Python file makes the configuration")
      .Type("NAME");
}

bool& AllColumns() {
  static bool all = false;
  return all;
}

void AddColumns(Command command) {
  command.AddFlag("--columns", AllColumns(),
                  "Show all columns of tables, in lines that may be wider than the terminal");
}

Option AddNetwork(Command command, std::string& network, const std::string& help) {
  return command.AddOption("--network", network, help)
      .Type("HOW")
      .OneOf({"analytic", "flow", "message"});
}

Option AddJsonAndCsv(Command command, bool& json, bool& csv) {
  Option option = command.AddFlag("--json", json, "Print one JSON document");
  command.AddFlag("--csv", csv, "Print CSV (RFC 4180)").Excludes(option);
  return option;
}

void AddTraining(Command command, study::TrainingQuestion& training) {
  command
      .AddOption("--tokens", training.tokens, "How many tokens the training sees: 15T, 300B, 300e9")
      .Type("N");
  command.AddOption("--deadline", training.deadline, "How long it may take: '30 d', '12 h'")
      .Type("TIME");
  command.AddOption("--price", training.price, "What a GPU costs in an hour: 2.5, '$2.5'")
      .Type("MONEY");
  command
      .AddOption("--availability", training.availability,
                 "The part of the time in which the GPUs train: 0.9, 90% (all of it is assumed, "
                 "and said)")
      .Type("PART");
}

void AddFitProbability(Command command, std::optional<double>& probability) {
  command
      .AddOption("--fit-probability", probability,
                 "Exit with 4 where the plan fits with a lower probability than P, from 0 to 1 "
                 "(docs/uncertainty.md)")
      .Type("P")
      .Probability();
}

void AddEmit(Command command, EmitOptions& options) {
  Option folder =
      command
          .AddOption("--emit", options.folder,
                     "Also write the plan into FOLDER: plan.json, files of the framework, scripts")
          .Type(kFolder);
  command
      .AddFlag("--force", options.force,
               "Replace the plan that FOLDER holds, if it holds nothing else")
      .Needs(folder);
}

}  // namespace stepcast::cli
