#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/outputs.h"
#include "src/study/training_question.h"

// Options that several commands share.
namespace stepcast::cli {

// An option with one word, which may be given repeatedly.
Option AddRepeated(Command command, const std::string& name, std::vector<std::string>& values,
                   const std::string& type, const std::string& help);
// An option with an integer from `least` to `most`.
Option AddCount(Command command, const std::string& name, int& value, int least, int most,
                const std::string& help);
Option AddCount(Command command, const std::string& name, std::optional<int>& value, int least,
                int most, const std::string& help);
// An option that names an output file.
Option AddOutput(Command command, const std::string& name, std::string& file,
                 const std::string& help);
// --output, for a command that otherwise writes to stdout.
Option AddOutput(Command command, std::string& file);

// The scenario and --set.
void AddScenario(Command command, std::string& scenario, std::vector<std::string>& set);
// The same for a command that also takes other programs' configurations and prints tables, with the
// options for their missing values.
void AddScenarioFiles(Command command, ScenarioFiles& files, std::vector<std::string>& set);
// Only those additional options.
void AddImport(Command command, ScenarioFiles& files);
// An option that also writes an HTML page.
Option AddReport(Command command, std::string& report);
// An option that also writes a folder of traces, one for each rank with a timeline.
Option AddTraceFolder(Command command, std::string& folder);
// --network, the fidelity of collectives.
Option AddNetwork(Command command, std::string& network, const std::string& help);
// --columns, for a command that prints tables.
void AddColumns(Command command);
// Whether it is given: one value for the process.
bool& AllColumns();
// --json and --csv, which exclude each other. Returns --json.
Option AddJsonAndCsv(Command command, bool& json, bool& csv);
// --tokens, --deadline, --price and --availability, which describe the training.
void AddTraining(Command command, study::TrainingQuestion& training);
// --fit-probability, for a command that reports whether one plan fits.
void AddFitProbability(Command command, std::optional<double>& probability);
// --emit and --force.
void AddEmit(Command command, EmitOptions& options);

// "all_reduce, all_gather, ..."
std::string CollectiveNames();

}  // namespace stepcast::cli
