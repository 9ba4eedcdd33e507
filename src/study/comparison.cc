#include "src/study/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/forecast/forecast.h"
#include "src/forecast/warnings.h"
#include "src/report/table.h"
#include "src/scenario/load.h"
#include "src/study/training_question.h"

namespace stepcast::study {

Result<Comparison> Compare(const ComparisonQuestion& question) {
  scenario::InputCache cache;
  const auto load = [&](const std::string& file, const std::vector<std::string>& own,
                        const char* option) {
    std::vector<std::string> set = question.set;
    set.insert(set.end(), own.begin(), own.end());
    auto scenario = scenario::Load(file, set, cache);
    if (scenario) return scenario;
    Diagnostics faults = std::move(scenario.error());
    for (Diagnostic& fault : faults) {
      for (const std::string& text : own) {
        if (fault.location.file == "--set " + text) {
          fault.location.file = fmt::format("{} {}", option, text);
        }
      }
    }
    return Result<scenario::Scenario>(tl::unexpected(std::move(faults)));
  };
  auto a = load(question.a, question.set_a, "--set-a");
  auto b = load(question.b.empty() ? question.a : question.b, question.set_b, "--set-b");
  Diagnostics faults;
  if (!a) faults = a.error();
  if (!b) {
    std::copy_if(b.error().begin(), b.error().end(), std::back_inserter(faults),
                 [known = faults](const Diagnostic& fault) {
                   return std::none_of(known.begin(), known.end(), [&](const Diagnostic& other) {
                     return Format(other) == Format(fault);
                   });
                 });
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  auto of_a = forecast::FiguresOf(*a);
  if (!of_a) return tl::unexpected(std::move(of_a.error()));
  auto of_b = forecast::FiguresOf(*b);
  if (!of_b) return tl::unexpected(std::move(of_b.error()));
  forecast::WarnOfOptimizerStates(of_a->memory, *a);
  forecast::WarnOfOptimizerStates(of_b->memory, *b);
  return Comparison{*std::move(a), *std::move(b), *std::move(of_a), *std::move(of_b)};
}

struct GuardedFigure {
  std::string_view name;
  double (*value)(const forecast::Forecast& forecast);
  std::optional<double> (*amount)(std::string_view text);
  std::string (*text)(double value);  // of a value, or of a change without its sign
};

namespace {

using forecast::Forecast;

std::optional<double> SecondsIn(std::string_view text) {
  const auto time = ParseTime(text);
  return time ? std::optional(time->seconds()) : std::nullopt;
}

std::optional<double> BytesIn(std::string_view text) {
  const auto bytes = ParseBytes(text);
  return bytes ? std::optional(static_cast<double>(bytes->count())) : std::nullopt;
}

std::string TimeText(double seconds) {
  constexpr double kPicoseconds = 1e12;
  return FormatTime(Picoseconds(std::llround(seconds * kPicoseconds)));
}

std::string BytesText(double bytes) { return FormatBytes(Bytes(std::llround(bytes))); }

std::string RateText(double rate) { return fmt::format("{:.0f} tokens/s", rate); }

constexpr GuardedFigure kFigures[] = {
    {"step_time", [](const Forecast& f) { return f.step_time.seconds(); }, SecondsIn, TimeText},
    {"tokens_per_second", [](const Forecast& f) { return f.tokens_per_second; }, PositiveNumber,
     RateText},
    // What a device needs in all, and the most that its allocator hands out.
    {"memory",
     [](const Forecast& f) {
       return static_cast<double>((f.memory.reserved + f.memory.outside).count());
     },
     BytesIn, BytesText},
    {"peak", [](const Forecast& f) { return static_cast<double>(f.memory.peak.count()); }, BytesIn,
     BytesText},
    {"exposed_communication",
     [](const Forecast& f) { return f.time.exposed_communication.seconds(); }, SecondsIn,
     TimeText}};

// "2%", "1 GiB", "10 ms", without a sign: as the part of A's figure, or as an amount of it.
std::optional<std::pair<bool, double>> ReadLimit(const GuardedFigure& figure,
                                                 std::string_view text) {
  const bool relative = text.ends_with('%');
  if (relative) text.remove_suffix(1);
  if (relative && text == "0") return std::pair(true, 0.0);
  const auto amount = relative ? PositiveNumber(text) : figure.amount(text);
  if (!amount) return std::nullopt;
  return std::pair(relative, relative ? *amount / report::kHundred : *amount);
}

std::optional<Guard> ReadGuard(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string::npos || at + 1 >= text.size()) return std::nullopt;
  const char sign = text[at + 1];
  if (sign != '+' && sign != '-') return std::nullopt;
  const auto* const figure =
      std::find_if(std::begin(kFigures), std::end(kFigures),
                   [&](const GuardedFigure& one) { return one.name == text.substr(0, at); });
  if (figure == std::end(kFigures)) return std::nullopt;
  Guard guard{.text = text, .figure = figure, .above = text[at] == '>'};
  const auto limit = ReadLimit(*figure, std::string_view(text).substr(at + 2));
  if (!limit) return std::nullopt;
  guard.relative = limit->first;
  guard.limit = sign == '+' ? limit->second : -limit->second;
  return guard;
}

}  // namespace

std::vector<Guard> ReadGuards(const std::vector<std::string>& texts, Diagnostics& faults) {
  std::vector<Guard> guards;
  std::vector<std::string_view> known;
  for (const GuardedFigure& figure : kFigures) known.push_back(figure.name);
  for (const std::string& text : texts) {
    if (auto guard = ReadGuard(text)) {
      guards.push_back(*std::move(guard));
      continue;
    }
    faults.push_back(WrongOption(
        "--fail-if", text,
        fmt::format("the value of --fail-if is not a valid condition: {}", Quoted(text)),
        fmt::format("write a condition such as 'step_time>+2%', 'memory>+1GiB' or "
                    "'tokens_per_second<-2%'; the possible quantities are {}",
                    fmt::join(known, ", "))));
  }
  return guards;
}

report::GuardVerdict VerdictOf(const Guard& guard, const forecast::Forecast& a,
                               const forecast::Forecast& b) {
  const double of_a = guard.figure->value(a), of_b = guard.figure->value(b);
  const double change = of_b - of_a;
  // Without a figure of A any change of it is beyond every part.
  const double limit = guard.relative ? guard.limit * of_a : guard.limit;
  report::GuardVerdict verdict{.guard = guard.text, .a = of_a, .b = of_b};
  verdict.failed = guard.above ? change > limit : change < limit;
  verdict.sentence =
      fmt::format("{}: {} is {} in B and {} in A, {}{}{}", verdict.failed ? "fails" : "holds",
                  guard.figure->name, guard.figure->text(of_b), guard.figure->text(of_a),
                  change < 0 ? "-" : "+", guard.figure->text(std::abs(change)),
                  of_a == 0 ? "" : fmt::format(" ({} %)", report::SignedPerCent(change / of_a)));
  return verdict;
}

}  // namespace stepcast::study
