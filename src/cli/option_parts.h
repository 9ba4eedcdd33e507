#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/question.h"
#include "src/cli/foreign_scenario.h"

// Options that several commands share.
namespace stepcast::cli {

// Adds --output, for a command that writes to stdout by default.
void AddOutput(Question& question, std::string& file);

// Adds the scenario and --set.
void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set);
// Adds SCENARIO, --set, and the options for values that configurations of other programs lack.
// SCENARIO may be a scenario or configurations of other programs. For commands that print tables.
void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set);
// Adds only the options for values that configurations of other programs lack.
void AddImport(Question& question, ScenarioFiles& files);
// Adds --report, which writes an HTML page in addition to the output.
void AddReport(Question& question, std::string& report);
// Adds --trace-dir, which writes a folder with one trace for each rank that has a timeline.
void AddTraceFolder(Question& question, std::string& folder);
// Adds --network, which selects the network model for collectives.
void AddNetwork(Question& question, std::string& network);
// Adds --columns, for a command that prints tables.
void AddColumns(Question& question);
// Returns a reference to the process's flag for --columns.
bool& AllColumns();
// Adds --json and --csv, which are mutually exclusive.
void AddJsonAndCsv(Question& question, bool& json, bool& csv);
// Adds --fit-probability, for a command that reports whether one plan fits.
void AddFitProbability(Question& question, std::optional<double>& probability);
// Adds --emit and --force.
void AddEmit(Question& question, std::string& folder, bool& force);

// Returns the names of all collectives: "all_reduce, all_gather, ...".
std::string CollectiveNames();

// Parse a collective's name or a size. `option` is the option that has the value, such as "--op".
// On failure, append a mistake to `diagnostics` and return none. Errors:
// command.unknown-collective, command.bad-quantity.
std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics);
std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics);  // the size must be positive

}  // namespace stepcast::cli
