#include "src/study/guard.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/table.h"
#include "src/study/training_question.h"

namespace stepcast::study {
namespace {

constexpr std::string_view kFigures[] = {"step_time", "tokens_per_second", "memory", "peak",
                                         "exposed_communication"};

double ValueOf(GuardedFigure figure, const forecast::Forecast& forecast) {
  switch (figure) {
    case GuardedFigure::kStepTime:
      return forecast.step_time.seconds();
    case GuardedFigure::kTokensPerSecond:
      return forecast.tokens_per_second;
    case GuardedFigure::kMemory:
      return static_cast<double>((forecast.memory.reserved + forecast.memory.outside).count());
    case GuardedFigure::kPeak:
      return static_cast<double>(forecast.memory.peak.count());
    case GuardedFigure::kExposed:
      break;
  }
  return forecast.time.exposed_communication.seconds();
}

// A value of the figure, or a change of it, without a sign.
std::string TextOf(GuardedFigure figure, double value) {
  switch (figure) {
    case GuardedFigure::kTokensPerSecond:
      return fmt::format("{:.0f} tokens/s", value);
    case GuardedFigure::kMemory:
    case GuardedFigure::kPeak:
      return FormatBytes(Bytes(std::llround(value)));
    case GuardedFigure::kStepTime:
    case GuardedFigure::kExposed:
      break;
  }
  constexpr double kPicoseconds = 1e12;
  return FormatTime(Picoseconds(std::llround(value * kPicoseconds)));
}

// "2%", "1 GiB", "10 ms", without a sign: as the part of A's figure, or as an amount of it.
std::optional<std::pair<bool, double>> ReadLimit(GuardedFigure figure, std::string_view text) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    constexpr double kHundred = 100;
    if (text == "0") return std::pair(true, 0.0);
    const auto part = PositiveNumber(text);
    return part ? std::optional(std::pair(true, *part / kHundred)) : std::nullopt;
  }
  std::optional<double> amount;
  switch (figure) {
    case GuardedFigure::kTokensPerSecond:
      amount = PositiveNumber(text);
      break;
    case GuardedFigure::kMemory:
    case GuardedFigure::kPeak:
      if (const auto bytes = ParseBytes(text)) amount = static_cast<double>(bytes->count());
      break;
    case GuardedFigure::kStepTime:
    case GuardedFigure::kExposed:
      if (const auto time = ParseTime(text)) amount = time->seconds();
      break;
  }
  return amount ? std::optional(std::pair(false, *amount)) : std::nullopt;
}

std::optional<Guard> ReadGuard(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string::npos || at + 1 >= text.size()) return std::nullopt;
  const char sign = text[at + 1];
  if (sign != '+' && sign != '-') return std::nullopt;
  const auto* const figure =
      std::find(std::begin(kFigures), std::end(kFigures), std::string_view(text).substr(0, at));
  if (figure == std::end(kFigures)) return std::nullopt;
  Guard guard{.text = text,
              .figure = static_cast<GuardedFigure>(figure - std::begin(kFigures)),
              .above = text[at] == '>'};
  const auto limit = ReadLimit(guard.figure, std::string_view(text).substr(at + 2));
  if (!limit) return std::nullopt;
  guard.relative = limit->first;
  guard.limit = sign == '+' ? limit->second : -limit->second;
  return guard;
}

}  // namespace

std::vector<Guard> ReadGuards(const std::vector<std::string>& texts, Diagnostics& faults) {
  std::vector<Guard> guards;
  for (const std::string& text : texts) {
    if (auto guard = ReadGuard(text)) {
      guards.push_back(*std::move(guard));
      continue;
    }
    faults.push_back(WrongOption(
        "--fail-if", text, fmt::format("this is not a condition for --fail-if: {}", Quoted(text)),
        fmt::format("write for example 'step_time>+2%', 'memory>+1GiB' or "
                    "'tokens_per_second<-2%'; the figures are {}",
                    fmt::join(kFigures, ", "))));
  }
  return guards;
}

report::GuardVerdict VerdictOf(const Guard& guard, const forecast::Forecast& a,
                               const forecast::Forecast& b) {
  const double of_a = ValueOf(guard.figure, a), of_b = ValueOf(guard.figure, b);
  const double change = of_b - of_a;
  // Without a figure of A any change of it is beyond every part.
  const double limit = guard.relative ? guard.limit * of_a : guard.limit;
  report::GuardVerdict verdict{.guard = guard.text, .a = of_a, .b = of_b};
  verdict.failed = guard.above ? change > limit : change < limit;
  verdict.sentence = fmt::format(
      "{}: {} is {} in B and {} in A, {}{}{}", verdict.failed ? "fails" : "holds",
      kFigures[static_cast<std::size_t>(guard.figure)], TextOf(guard.figure, of_b),
      TextOf(guard.figure, of_a), change < 0 ? "-" : "+", TextOf(guard.figure, std::abs(change)),
      of_a == 0 ? "" : fmt::format(" ({} %)", report::SignedPerCent(change / of_a)));
  return verdict;
}

}  // namespace stepcast::study
