#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/calibrate/statistics.h"

namespace stepcast::calibrate {

// Results of a calibration so far, so that an interrupted one can go on: results by key, and the
// machine and options that they hold for. As text:
//
//   stepcast calibration state 1
//   host, 4 ranks on 2 nodes, quick, ...
//   gemm fp32 64 64 64<tab>median<tab>low<tab>high<tab>spread<tab>count
//
// Keys and the binding have neither tabs nor line ends (they become spaces). Numbers are written so
// that they read back to the same value.
class MeasurementState {
 public:
  explicit MeasurementState(std::string_view binding);

  // Nothing when `text` is not such a state, or was cut off.
  static std::optional<MeasurementState> Parse(std::string_view text);
  std::string Text() const;

  const std::string& binding() const { return binding_; }
  const Summary* Find(const std::string& key) const;
  void Add(const std::string& key, const Summary& summary);

 private:
  std::string binding_;
  std::map<std::string, Summary> results_;
};

// One summary as five numbers with tabs between them, and back.
std::string SummaryText(const Summary& summary);
std::optional<Summary> ParseSummary(std::string_view text);

}  // namespace stepcast::calibrate
