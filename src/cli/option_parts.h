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

// Adds --output, for a command that otherwise writes to stdout.
void AddOutput(Question& question, std::string& file);

// Adds the scenario and --set.
void AddScenario(Question& question, std::string& scenario, std::vector<std::string>& set);
// Adds SCENARIO, --set, and the options for values that configurations of other programs lack.
// SCENARIO may also be such configurations. Used by commands that print tables.
void AddScenarioFiles(Question& question, ScenarioFiles& files, std::vector<std::string>& set);
// Adds only the options for values that configurations of other programs lack.
void AddImport(Question& question, ScenarioFiles& files);
// Adds --report, which writes an HTML page in addition to the output.
void AddReport(Question& question, std::string& report);
// Adds --trace-dir, which also writes a folder with one trace for each rank that has a timeline.
void AddTraceFolder(Question& question, std::string& folder);
// Adds --network, which sets the fidelity of collectives.
void AddNetwork(Question& question, std::string& network);
// Adds --columns, for a command that prints tables.
void AddColumns(Question& question);
// Returns a reference to the process's flag that states whether --columns is given.
bool& AllColumns();
// Adds --json and --csv, which exclude each other.
void AddJsonAndCsv(Question& question, bool& json, bool& csv);
// Adds --fit-probability, for a command that reports whether one plan fits.
void AddFitProbability(Question& question, std::optional<double>& probability);
// Adds --emit and --force.
void AddEmit(Question& question, std::string& folder, bool& force);

// Returns the names of all collectives: "all_reduce, all_gather, ...".
std::string CollectiveNames();

// These functions parse a collective's name or a size. `option` is the option to which the word
// belongs, such as "--op". A mistake is appended to `diagnostics`, and the result is none. Errors:
// command.unknown-collective, command.bad-quantity.
std::optional<CollectiveKind> ReadCollective(const std::string& option, const std::string& word,
                                             Diagnostics& diagnostics);
std::optional<Bytes> ReadSize(const std::string& option, const std::string& text,
                              Diagnostics& diagnostics);  // above zero

}  // namespace stepcast::cli
