#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/forecast/values.h"
#include "src/report/table.h"
#include "src/scenario/scenario.h"

// The parts of the pages that show figures of a step, be they forecast or measured. Each ends in a
// newline.
namespace stepcast::report {

// Name and facts of a scenario, a line each.
std::string Header(const scenario::Scenario& scenario,
                   const std::vector<std::pair<std::string, std::string>>& facts);
// "7 000 000 parameters", and where some are frozen how many are trained.
std::string ParametersText(const model::Model& model);

// Model, cluster and plan: "model" and what it is, and so on.
std::vector<std::pair<std::string, std::string>> Facts(const scenario::Scenario& scenario);
// The same and the software that a forecast is for. An execution has its own.
std::vector<std::pair<std::string, std::string>> ForecastFacts(const scenario::Scenario& scenario);

std::string Throughput(const forecast::Forecast& forecast);
std::string TimeTable(const forecast::Forecast& forecast);
// A row a class of ranks; nothing where all ranks are one.
Table ClassRows(const forecast::Forecast& forecast);
std::string ClassTable(const forecast::Forecast& forecast);
std::string CollectiveTable(const forecast::Forecast& forecast);
std::string MemoryTable(const forecast::MemoryForecast& memory);

// The tables alone, without the lines below them.
Table TimeRows(const forecast::Forecast& forecast);
Table CollectiveRows(const forecast::Forecast& forecast);
Table MemoryRows(const forecast::MemoryForecast& memory);

}  // namespace stepcast::report
