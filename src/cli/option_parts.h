#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/outputs.h"
#include "src/study/training_question.h"

// What the commands' options have in common.
namespace stepcast::cli {

// An option that takes one word at a time and may be given as often as needed.
Option AddRepeated(Command command, const std::string& name, std::vector<std::string>& values,
                   const std::string& type, const std::string& help);
// An option with a whole number from `least` to `most`.
Option AddCount(Command command, const std::string& name, int& value, int least, int most,
                const std::string& help);
Option AddCount(Command command, const std::string& name, std::optional<int>& value, int least,
                int most, const std::string& help);
// An option that names a file that the command writes.
Option AddOutput(Command command, const std::string& name, std::string& file,
                 const std::string& help);
// --output, of a command that writes to stdout without it.
Option AddOutput(Command command, std::string& file);

// The scenario and --set.
void AddScenario(Command command, std::string& scenario, std::vector<std::string>& set);
// The same of a command that also takes other programs' configurations, with the options that say
// what these leave open.
void AddScenarioFiles(Command command, ScenarioFiles& files, std::vector<std::string>& set);
// The latter alone.
void AddImport(Command command, ScenarioFiles& files);
// An option that also writes a page for people to look at.
Option AddReport(Command command, std::string& report);
// An option that also writes a folder of traces, one of each rank that has a timeline.
Option AddTraceFolder(Command command, std::string& folder);
// --network, how closely collectives are followed.
Option AddNetwork(Command command, std::string& network, const std::string& help);
// --json or --csv; of --json.
Option AddJsonAndCsv(Command command, bool& json, bool& csv);
// --tokens, --deadline, --price and --availability: the training that a step is one of.
void AddTraining(Command command, study::TrainingQuestion& training);
// --fit-probability, of a command that answers whether one plan fits.
void AddFitProbability(Command command, std::optional<double>& probability);
// --emit and --force.
void AddEmit(Command command, EmitOptions& options);

// "all_reduce, all_gather, ..."
std::string CollectiveNames();

}  // namespace stepcast::cli
