#include "src/report/training_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace stepcast::report {

using forecast::TrainedStep;
using forecast::TrainingTarget;

namespace {

// "15T", "1.5B"; smaller numbers than a thousand in full.
std::string CountText(double number) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  for (const auto& [unit, name] : kUnits) {
    if (number >= unit) return fmt::format("{:.6g}{}", number / unit, name);
  }
  return fmt::format("{:.6g}", number);
}

// Sums of a thousand or more have no decimals.
std::string Money(const TrainingTarget& target, double sum) {
  constexpr double kLarge = 1000;
  constexpr int kSmallDigits = 4;
  const int digits = sum >= kLarge ? 0 : sum >= 1 ? 2 : kSmallDigits;
  return target.currency + Decimal(sum, digits);
}

bool HasMoneyOfTraining(const TrainingTarget& target) {
  return target.tokens > 0 && target.gpu_hour_price > 0;
}

}  // namespace

std::string Duration(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds >= kDay) return fmt::format("{} d", Decimal(seconds / kDay, 2));
  if (seconds >= kHour) return fmt::format("{} h", Decimal(seconds / kHour, 2));
  return fmt::format("{} s", Decimal(seconds, 1));
}

std::string EnergyText(double joules) {
  constexpr double kGigawattHour = 1e6, kFew = 10;
  const double hours = joules / kJoulesPerKilowattHour;
  return hours >= kGigawattHour / 10 ? fmt::format("{} GWh", Decimal(hours / kGigawattHour, 2))
                                     : fmt::format("{} kWh", Decimal(hours, hours < kFew ? 3 : 0));
}

std::string TargetText(const TrainingTarget& target) {
  std::string text;
  if (target.tokens > 0) text = fmt::format("{} tokens", CountText(target.tokens));
  if (target.deadline) text += fmt::format(" within {}", Duration(*target.deadline));
  if (target.gpu_hour_price > 0) {
    text += fmt::format("{}{}{:g} per GPU hour", text.empty() ? "" : ", ", target.currency,
                        target.gpu_hour_price);
  }
  if (target.pue > 0) text += fmt::format(", PUE {:g} (assumed)", target.pue);
  if (!target.availability && target.effective) {
    return text + "; the availability for each number of GPUs is the forecast of stepcast run-time";
  }
  if (!target.availability) {
    return text + "; an availability of 100 % is assumed (to change it, add --availability 0.9)";
  }
  return text + fmt::format("; availability {:.4g} %", kHundred * *target.availability);
}

std::string TrainingText(const TrainingTarget& target, const TrainedStep& step) {
  if (!target.said()) return "";
  std::string out = fmt::format("training   {}\n", TargetText(target));
  if (target.tokens > 0) {
    out += fmt::format("takes      {}, {} GPU hours\n", Duration(TrainingSeconds(target, step)),
                       Decimal(GpuHours(target, step), 0));
  }
  if (target.gpu_hour_price > 0) {
    out += "costs      ";
    if (HasMoneyOfTraining(target)) out += Money(target, MoneyOfTraining(target, step)) + ", ";
    out += Money(target, MoneyOfMillionTokens(target, step)) + " for a million tokens\n";
  }
  if (target.deadline) {
    const double over = TrainingSeconds(target, step) - *target.deadline;
    out += MeetsDeadline(target, step) ? fmt::format("deadline   met, {} early\n", Duration(-over))
                                       : fmt::format("deadline   missed by {}\n", Duration(over));
  }
  return out;
}

std::vector<Figure> TrainingFigures(const TrainingTarget& target, const TrainedStep& step) {
  std::vector<Figure> figures;
  const auto money = [&](double sum) { return Cell(Money(target, sum), Json(sum)); };
  if (target.tokens > 0 && target.pue > 0) {
    const double energy = EnergyOfTraining(target, step);
    figures.push_back(
        {{"energy", "energy_kwh"}, Cell(EnergyText(energy), energy / kJoulesPerKilowattHour)});
  }
  if (target.tokens > 0) {
    const double seconds = TrainingSeconds(target, step);
    figures.push_back({{"training", "training_s"}, Cell(Duration(seconds), seconds)});
    figures.push_back({{"", "gpu_hours"}, GpuHours(target, step)});
  }
  if (target.deadline) {
    const bool meets = MeetsDeadline(target, step);
    figures.push_back(
        {{"in time", "meets_deadline", Align::kLeft}, Cell(meets ? "yes" : "no", meets)});
  }
  const bool whole = HasMoneyOfTraining(target);
  if (target.gpu_hour_price > 0) {
    figures.push_back({{whole ? "" : "money/million tokens", "money_per_million_tokens"},
                       money(MoneyOfMillionTokens(target, step))});
  }
  if (whole) figures.push_back({{"money", "money"}, money(MoneyOfTraining(target, step))});
  return figures;
}

void AddTraining(const TrainingTarget& target, const TrainedStep& step, Json& document) {
  for (const Figure& figure : TrainingFigures(target, step)) {
    document[figure.column.key] = figure.cell.value;
  }
}

Json TargetJson(const TrainingTarget& target) {
  if (!target.said()) return {};
  const bool priced = target.gpu_hour_price > 0;
  const bool counted = !target.availability && target.effective;  // by the number of GPUs
  return Json{{"tokens", target.tokens > 0 ? Json(target.tokens) : Json()},
              {"deadline_s", target.deadline ? Json(*target.deadline) : Json()},
              {"gpu_hour_price", priced ? Json(target.gpu_hour_price) : Json()},
              {"currency", target.currency},
              {"availability", counted ? Json() : Json(target.availability.value_or(1))},
              {"availability_is_assumed", !target.availability.has_value() && !counted}};
}

std::string SizesText(const TrainingTarget& target, std::vector<SizeRow> rows) {
  if (rows.size() < 2) return "";
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SizeRow& a, const SizeRow& b) { return a.step.gpus < b.step.gpus; });
  AnswerTable table;
  const double fewest = rows.front().tokens_per_second_per_gpu;
  for (const SizeRow& row : rows) {
    std::vector<Figure> figures = {
        {{"GPUs", ""}, row.step.gpus},
        {{"step ms", ""}, row.step.time},
        {{"tokens/s/GPU", ""}, Fixed(row.tokens_per_second_per_gpu, 1)},
        {{"relative rate %", ""}, Decimal(kHundred * row.tokens_per_second_per_gpu / fewest, 1)}};
    for (Figure& figure : TrainingFigures(target, row.step)) figures.push_back(std::move(figure));
    figures.push_back({{"with", "", Align::kLeft}, row.settings});
    table.AddFigures(std::move(figures));
  }
  return "best for each number of GPUs\n" + table.Text();
}

}  // namespace stepcast::report
