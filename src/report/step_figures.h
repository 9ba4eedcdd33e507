#pragma once

#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/report/answer.h"
#include "src/scenario/scenario.h"

// The values of a forecast or measured step, in formats that several answers share. Texts end in a
// newline.
namespace stepcast::report {

// Returns a header: the scenario's name, followed by one line per fact.
std::string Header(const scenario::Scenario& scenario,
                   const std::vector<std::pair<std::string, std::string>>& facts);
// Returns the number of parameters, such as "7,000,000 parameters". If some parameters are frozen,
// the text also has the number of trained parameters.
std::string ParametersText(const model::Model& model);

// Returns the descriptions of model, cluster and plan, each with its label.
std::vector<std::pair<std::string, std::string>> Facts(const scenario::Scenario& scenario);
// Returns Facts, followed by the software that the forecast assumes.
std::vector<std::pair<std::string, std::string>> ForecastFacts(const scenario::Scenario& scenario);

// A value of a step, such as its throughput, in the format that all answers use.
struct StepFigure {
  const char* name = "";  // name with unit: "tokens/s", "MFU, %"
  const char* key = "";   // key in JSON
  std::optional<double> value{};
  int digits = 0;          // digits after the decimal point, in text
  double scale = 1;        // factor in text, such as 100 for per cent
  const char* line = "";   // label of a separate line in per cent; empty: no separate line
  const char* title = "";  // title of the large number on the page

  std::string text() const { return Decimal(scale * *value, digits); }
};
std::vector<StepFigure> StepFigures(const forecast::Forecast& forecast);

// A total of a rank's memory, in the format that all answers use.
struct MemoryFigure {
  const char* name = "";  // "peak allocated"
  const char* key = "";   // key in JSON
  Bytes bytes{};
};
std::vector<MemoryFigure> MemoryFigures(const forecast::MemoryForecast& memory);

// Returns " (90 % range: 4.06 s to 5.28 s)" for use after a step time. Empty if the range is
// unknown.
std::string RangeText(const std::optional<forecast::TimeRange>& range);

// These functions return the lines of a text answer.
std::string ThroughputLine(const forecast::Forecast& forecast);
std::string UtilizationLines(const forecast::Forecast& forecast);
// Returns step time, throughput, utilization, and the limits of the forecast.
std::string Throughput(const forecast::Forecast& forecast);
std::string TimeTable(const forecast::Forecast& forecast);
// Returns one row per class of ranks. Empty if all ranks are in one class.
Table ClassRows(const forecast::Forecast& forecast);
std::string ClassTable(const forecast::Forecast& forecast);
std::string CollectiveTable(const forecast::Forecast& forecast);
std::string MemoryTable(const forecast::MemoryForecast& memory);

// These functions return only tables, without the notes below the tables.
Table TimeRows(const forecast::Forecast& forecast);
AnswerTable CollectiveRows(const forecast::Forecast& forecast);
Table MemoryRows(const forecast::MemoryForecast& memory);

// These functions convert the values of a step to JSON.

// Returns the range as [low, high] in seconds or in bytes. Null if there is no range.
Json RangeJson(const std::optional<forecast::TimeRange>& range);
Json RangeJson(const std::optional<forecast::BytesRange>& range);
// Adds keys such as "parameters_bytes" to `object`, in the order of program::Category.
void AddCategories(Json& object, const forecast::BytesByCategory& bytes);
// Adds the step time and StepFigures as keys of `object`.
void AddStep(const forecast::Forecast& forecast, Json& object);
Json TimeJson(const std::vector<forecast::TimePart>& parts);  // "time_s"
inline Json TimeJson(const forecast::TimeBreakdown& time) {
  return TimeJson(forecast::PartsOf(time));
}
// Returns one object per class of ranks (docs/formats.md). Empty if all ranks are in one class.
Json ClassesJson(const forecast::Forecast& forecast);
Json CommunicationJson(const forecast::Forecast& forecast);  // "communication"
Json LengthsJson(const forecast::LengthsForecast& lengths);  // "lengths"
Json MemoryJson(const forecast::MemoryForecast& memory);     // "memory"

// Adds the last keys of most documents: "resolved", "warnings" and "run". `seconds` is the
// wall-clock time of the run.
void Close(const scenario::Scenario& scenario, double seconds, Json& document);

// The names of memory categories in tables. The keys of the JSON documents are these names followed
// by "_bytes".
inline constexpr std::array<std::string_view, program::kCategories> kCategoryNames = {
    "parameters", "gradients", "optimizer", "activations", "communication", "workspace"};

inline Bytes Total(const forecast::BytesByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes());
}

}  // namespace stepcast::report
