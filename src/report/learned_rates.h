#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/time.h"

// The rates that `calibrate trace` learned from a traced step.
namespace stepcast::report {

// A kind of kernels, or the host's launches, in the traced ranks' steps.
struct LearnedRate {
  const char* part = "";  // "products"
  std::int64_t forecast_calls = 0, traced_calls = 0;
  Time forecast{}, traced{};  // sums; of launches, the mean time between two
  double factor() const { return traced / forecast; }
};

struct LearnedTable {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0, nodes = 0;
  std::size_t sizes = 0;
};

struct LearnedRates {
  std::string source;       // the trace or folder
  std::int64_t number = 0;  // the step
  std::size_t ranks = 1;    // that were traced
  std::vector<LearnedRate> rates;
  std::vector<LearnedTable> tables;
  std::vector<std::string> notes;  // what could not be learned
  Time traced{}, forecast{};       // the step
  std::optional<Time> learned{};   // the forecast with the written profile
  std::string written;             // its path; empty: none was written
};

std::string LearnedRatesText(const LearnedRates& learned);
// The document of `calibrate trace --json`, version 1.
std::string LearnedRatesJson(const LearnedRates& learned);

}  // namespace stepcast::report
