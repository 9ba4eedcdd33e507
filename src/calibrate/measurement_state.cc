#include "src/calibrate/measurement_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "fmt/format.h"

namespace stepcast::calibrate {
namespace {

constexpr std::string_view kFirstLine = "stepcast calibration state 1";
constexpr std::string_view kLastLine = "end";

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return line;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string SummaryText(const Summary& summary) {
  return fmt::format("{}\t{}\t{}\t{}\t{}", summary.median, summary.low, summary.high,
                     summary.spread, summary.count);
}

std::optional<Summary> ParseSummary(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, '\t');
  Summary summary;
  if (parts.size() != 5 || !Parse(parts[0], summary.median) || !Parse(parts[1], summary.low) ||
      !Parse(parts[2], summary.high) || !Parse(parts[3], summary.spread) ||
      !Parse(parts[4], summary.count)) {
    return std::nullopt;
  }
  const bool sound = std::isfinite(summary.median) && summary.median > 0 && summary.low > 0 &&
                     summary.low <= summary.high && std::isfinite(summary.high) &&
                     summary.spread >= 0 && std::isfinite(summary.spread) && summary.count > 0;
  if (!sound) return std::nullopt;
  return summary;
}

MeasurementState::MeasurementState(std::string_view binding) : binding_(OneLine(binding)) {}

std::optional<MeasurementState> MeasurementState::Parse(std::string_view text) {
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.size() < 4 || lines[0] != kFirstLine || !lines.back().empty() ||
      lines[lines.size() - 2] != kLastLine) {
    return std::nullopt;
  }
  MeasurementState state(lines[1]);
  for (std::size_t i = 2; i + 2 < lines.size(); ++i) {
    const std::size_t tab = lines[i].find('\t');
    if (tab == std::string_view::npos) return std::nullopt;
    const std::optional<Summary> summary = ParseSummary(lines[i].substr(tab + 1));
    if (!summary) return std::nullopt;
    state.Add(std::string(lines[i].substr(0, tab)), *summary);
  }
  return state;
}

std::string MeasurementState::Text() const {
  std::string text = fmt::format("{}\n{}\n", kFirstLine, binding_);
  for (const auto& [key, summary] : results_) {
    text += fmt::format("{}\t{}\n", key, SummaryText(summary));
  }
  return fmt::format("{}{}\n", text, kLastLine);
}

const Summary* MeasurementState::Find(const std::string& key) const {
  const auto found = results_.find(OneLine(key));
  return found == results_.end() ? nullptr : &found->second;
}

void MeasurementState::Add(const std::string& key, const Summary& summary) {
  results_.insert_or_assign(OneLine(key), summary);
}

}  // namespace stepcast::calibrate
