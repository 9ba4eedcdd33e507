#include "src/study/training_question.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/forecast/training_run.h"

namespace stepcast::study {

using forecast::TrainingTarget;

namespace {

// "12 d" without the unit and the blanks before it.
std::string_view WithoutUnit(std::string_view text, std::size_t unit) {
  text.remove_suffix(unit);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "15T", "1.5 B", "300e9".
std::optional<double> Tokens(std::string_view text) {
  constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = PositiveNumber(WithoutUnit(text, 1));
    return number ? std::optional(*number * factor) : std::nullopt;
  }
  return PositiveNumber(text);
}

// Parses "2.5", optionally preceded by a currency sign.
void ReadPrice(const std::string& text, TrainingTarget& target, Diagnostics& faults) {
  std::string_view number = text;
  for (const std::string_view sign : {"$", "€", "£", "¥"}) {
    if (!number.starts_with(sign)) continue;
    number.remove_prefix(sign.size());
    target.currency = sign;
    break;
  }
  while (number.starts_with(' ')) number.remove_prefix(1);
  if (const auto price = PositiveNumber(number)) {
    target.gpu_hour_price = *price;
  } else {
    faults.push_back(WrongOption(
        "--price", text, fmt::format("the price must be a number larger than 0: {}", Quoted(text)),
        "write the price of a GPU hour, for example 2.5 or '$2.5'"));
  }
}

// Parses "0.9" or "90%".
void ReadAvailability(const std::string& text, TrainingTarget& target, Diagnostics& faults) {
  constexpr double kHundred = 100;
  const bool percent = text.ends_with('%');
  auto part = PositiveNumber(percent ? WithoutUnit(text, 1) : std::string_view(text));
  if (part && percent) *part /= kHundred;
  if (part && *part <= 1) {
    target.availability = *part;
  } else {
    faults.push_back(WrongOption(
        "--availability", text,
        fmt::format("the availability must be larger than 0 and at most 1: {}", Quoted(text)),
        "write the fraction of the time in which the GPUs train, for example 0.9 or 90%"));
  }
}

}  // namespace

Diagnostic WrongOption(const char* option, const std::string& value, std::string message,
                       std::string hint) {
  return {"planner.option",
          {fmt::format("{} {}", option, value), 0, 0},
          std::move(message),
          std::move(hint)};
}

std::optional<double> PositiveNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number) || number <= 0) return std::nullopt;
  return number;
}

std::optional<double> LongTime(std::string_view text) {
  const std::pair<std::string_view, double> units[] = {
      {"d", 86'400.0}, {"h", 3'600.0}, {"min", 60.0}, {"s", 1.0}};
  for (const auto& [unit, seconds] : units) {
    if (!text.ends_with(unit)) continue;
    const auto value = PositiveNumber(WithoutUnit(text, unit.size()));
    return value ? std::optional(*value * seconds) : std::nullopt;
  }
  return std::nullopt;
}

TrainingTarget ReadTraining(const TrainingQuestion& question, Diagnostics& faults) {
  TrainingTarget target;
  if (!question.tokens.empty()) {
    constexpr double kMostTokens = 1e18;
    const auto tokens = Tokens(question.tokens);
    if (tokens && *tokens <= kMostTokens) {
      target.tokens = *tokens;
    } else {
      faults.push_back(
          WrongOption("--tokens", question.tokens,
                      fmt::format("the value of --tokens must be a number of tokens{}: {}",
                                  tokens ? " up to 1e18" : "", Quoted(question.tokens)),
                      "write a number such as 15T, 300B or 300e9"));
    }
  }
  if (!question.deadline.empty()) {
    target.deadline = LongTime(question.deadline);
    if (!target.deadline) {
      faults.push_back(
          WrongOption("--deadline", question.deadline,
                      fmt::format("--deadline needs a time: {}", Quoted(question.deadline)),
                      "write a time such as '30 d' or '12 h'"));
    }
    if (question.tokens.empty()) {
      faults.push_back(WrongOption("--deadline", question.deadline,
                                   "--deadline needs the number of training tokens (--tokens)",
                                   "add --tokens 300B"));
    }
  }
  if (!question.price.empty()) ReadPrice(question.price, target, faults);
  if (!question.availability.empty()) {
    ReadAvailability(question.availability, target, faults);
    if (question.tokens.empty() && question.price.empty()) {
      faults.push_back(WrongOption("--availability", question.availability,
                                   "--availability has an effect only with --tokens or --price",
                                   "add --tokens 300B, or --price 2.5"));
    }
  }
  return target;
}

}  // namespace stepcast::study
