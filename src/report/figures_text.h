#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/forecast/values.h"
#include "src/report/table.h"
#include "src/scenario/scenario.h"

// Parts of the text output that show figures of a forecast or measured step. Each ends in a
// newline.
namespace stepcast::report {

// The name and the facts of a scenario, one per line.
std::string Header(const scenario::Scenario& scenario,
                   const std::vector<std::pair<std::string, std::string>>& facts);
// "7 000 000 parameters"; with frozen parameters also the number that are trained.
std::string ParametersText(const model::Model& model);

// Model, cluster and plan, each with its label.
std::vector<std::pair<std::string, std::string>> Facts(const scenario::Scenario& scenario);
// The same, and the software that the forecast assumes. An execution has its own software.
std::vector<std::pair<std::string, std::string>> ForecastFacts(const scenario::Scenario& scenario);

std::string Throughput(const forecast::Forecast& forecast);
std::string TimeTable(const forecast::Forecast& forecast);
// One row per class of ranks; empty if all ranks are one class.
Table ClassRows(const forecast::Forecast& forecast);
std::string ClassTable(const forecast::Forecast& forecast);
std::string CollectiveTable(const forecast::Forecast& forecast);
std::string MemoryTable(const forecast::MemoryForecast& memory);

// The tables without the lines below them.
Table TimeRows(const forecast::Forecast& forecast);
Table CollectiveRows(const forecast::Forecast& forecast);
Table MemoryRows(const forecast::MemoryForecast& memory);

}  // namespace stepcast::report
