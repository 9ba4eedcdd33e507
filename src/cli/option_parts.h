#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/cli/command.h"
#include "src/cli/foreign_scenario.h"

// Settings that several commands share.
namespace stepcast::cli {

// --output, for a command that otherwise writes to stdout.
void AddOutput(Question& question, std::string& file);

// The scenario and --set.
void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set);
// The same for a command that also takes other programs' configurations and prints tables, with the
// options for their missing values.
void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set);
// Only those additional options.
void AddImport(Question& question, ScenarioFiles& files);
// --report, which also writes an HTML page.
void AddReport(Question& question, std::string& report);
// --trace-dir, which also writes a folder of traces, one for each rank with a timeline.
void AddTraceFolder(Question& question, std::string& folder);
// --network, the fidelity of collectives.
void AddNetwork(Question& question, std::string& network, const char* help);
// --columns, for a command that prints tables.
void AddColumns(Question& question);
// Whether it is given: one value for the process.
bool& AllColumns();
// --json and --csv, which exclude each other.
void AddJsonAndCsv(Question& question, bool& json, bool& csv);
// --fit-probability, for a command that reports whether one plan fits.
void AddFitProbability(Question& question, std::optional<double>& probability);
// --emit and --force.
void AddEmit(Question& question, std::string& folder, bool& force);

// "all_reduce, all_gather, ..."
std::string CollectiveNames();

// Parse words about collectives; `option` is the word's option ("--op"). They append mistakes:
// command.unknown-collective, command.bad-quantity.
std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics);
std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics);  // above zero

}  // namespace stepcast::cli
