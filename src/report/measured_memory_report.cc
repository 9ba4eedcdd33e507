#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fmt/format.h"
#include "src/program/program.h"
#include "src/report/categories.h"
#include "src/report/dumps.h"
#include "src/report/json.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using forecast::BytesByCategory;
using formats::kMeasuredCategories;
using formats::MeasuredCategory;

constexpr std::array<std::string_view, kMeasuredCategories> kNames = {"parameters", "gradients",
                                                                      "optimizer", "other"};

std::array<Bytes, kMeasuredCategories> AsMeasured(const BytesByCategory& bytes) {
  std::array<Bytes, kMeasuredCategories> result{};
  const auto add = [&](program::Category from, MeasuredCategory to) {
    result[static_cast<std::size_t>(to)] += bytes[static_cast<std::size_t>(from)];
  };
  add(program::Category::kParameter, MeasuredCategory::kParameters);
  add(program::Category::kGradient, MeasuredCategory::kGradients);
  add(program::Category::kOptimizer, MeasuredCategory::kOptimizer);
  add(program::Category::kActivation, MeasuredCategory::kOther);
  add(program::Category::kCommunication, MeasuredCategory::kOther);
  add(program::Category::kWorkspace, MeasuredCategory::kOther);
  return result;
}

}  // namespace

std::string MeasuredMemoryText(const MeasuredComparison& comparison) {
  const formats::MeasuredMemory& measured = *comparison.measured;
  const forecast::MemoryForecast& forecast = *comparison.forecast;
  const ByteUnit unit = UnitFor(std::max(measured.allocated, forecast.reserved));
  Table table({{"memory of a rank", Align::kLeft},
               {fmt::format("measured {}", unit.name)},
               {fmt::format("forecast {}", unit.name)},
               {"difference"},
               {"%"}});
  const auto row = [&](std::string_view what, Bytes of_measured, Bytes of_forecast) {
    const auto a = static_cast<double>(of_measured.count());
    const double difference = static_cast<double>(of_forecast.count()) - a;
    table.AddRow({std::string(what), In(unit, of_measured), In(unit, of_forecast),
                  Signed(difference / static_cast<double>(unit.bytes), 2),
                  a == 0 ? "-" : Signed(100 * difference / a, 1)});
  };
  if (measured.at_peak) {
    const auto of_forecast = AsMeasured(forecast.at_peak);
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      row(i + 1 < kNames.size() ? kNames[i] : "activations, communication, others",
          (*measured.at_peak)[i], of_forecast[i]);
    }
    table.AddRule();
  }
  row("peak allocated", measured.allocated, forecast.peak);
  if (measured.reserved) row("reserved by the allocator", *measured.reserved, forecast.reserved);
  return fmt::format("{} beside a {} of PyTorch's memory, {}\n\n{}", comparison.scenario,
                     measured.form, comparison.file, table.ToString());
}

std::string MeasuredMemoryJson(const MeasuredComparison& comparison, double seconds) {
  const formats::MeasuredMemory& measured = *comparison.measured;
  const forecast::MemoryForecast& forecast = *comparison.forecast;
  Json at_peak;
  if (measured.at_peak) {
    at_peak = Json::object();
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      at_peak[fmt::format("{}_bytes", kNames[i])] = (*measured.at_peak)[i].count();
    }
  }
  const Json reserved = measured.reserved ? Json(measured.reserved->count()) : Json();
  return Text(Json{
      {"stepcast", 1},
      {"scenario", comparison.scenario},
      {"measured", Json{{"file", comparison.file},
                        {"form", measured.form},
                        {"peak_bytes", measured.allocated.count()},
                        {"reserved_bytes", reserved},
                        {"at_peak", at_peak},
                        {"notes", measured.notes}}},
      {"memory", MemoryJson(forecast)},
      {"run", Json{{"seconds", seconds}}},
  });
}

}  // namespace stepcast::report
