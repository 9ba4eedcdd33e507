#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/quantity.h"
#include "src/forecast/corrections.h"
#include "src/forecast/training_run.h"
#include "src/program/program.h"
#include "src/report/answers.h"
#include "src/report/categories.h"
#include "src/report/plan_rows.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

using forecast::Forecast;

// The change in per cent of a; "-" if a is zero.
std::string ChangeOf(double a, double b) {
  if (a == 0) return "-";
  const double per_cent = 100 * (b - a) / a;
  if (std::abs(per_cent) >= 1000) return per_cent > 0 ? ">1,000" : "<-1,000";
  return Signed(per_cent, 1);
}

std::string SignedTime(Time time) {
  if (time == Time()) return Milliseconds(time);
  return time < Time() ? "-" + Milliseconds(Time() - time) : "+" + Milliseconds(time);
}

std::string SignedBytes(ByteUnit unit, Bytes bytes) {
  if (bytes == Bytes()) return In(unit, bytes);
  return bytes < Bytes() ? "-" + In(unit, Bytes(-bytes.count())) : "+" + In(unit, bytes);
}

std::string SettingsBeside(const ComparedPlan& a, const ComparedPlan& b) {
  constexpr std::size_t kLongest = 40;
  const std::vector<SettingPair> pairs = DifferentSettings(*a.scenario, *b.scenario);
  if (pairs.empty()) return "all settings are the same\n";
  Table table({{"setting", Align::kLeft}, {"A", Align::kLeft}, {"B", Align::kLeft}});
  const auto cell = [](const std::string& value) {
    return value.empty() ? std::string("-") : Quoted(value, "", kLongest);
  };
  for (const SettingPair& pair : pairs) table.AddRow({pair.key, cell(pair.a), cell(pair.b)});
  return table.ToString();
}

std::string Figures(const Forecast& a, const Forecast& b) {
  Table table({{"", Align::kLeft},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  table.AddRow({"step time, ms", Milliseconds(a.step_time), Milliseconds(b.step_time),
                SignedTime(b.step_time - a.step_time),
                ChangeOf(a.step_time.seconds(), b.step_time.seconds())});
  const auto row = [&](const char* what, double of_a, double of_b, int digits) {
    const double difference = of_b - of_a;
    table.AddRow({what, Decimal(of_a, digits), Decimal(of_b, digits),
                  (difference > 0   ? "+"
                   : difference < 0 ? "-"
                                    : "") +
                      Decimal(std::abs(difference), digits),
                  ChangeOf(of_a, of_b)});
  };
  row("tokens/s", a.tokens_per_second, b.tokens_per_second, 0);
  row("tokens/s per GPU", a.tokens_per_second_per_gpu, b.tokens_per_second_per_gpu, 1);
  if (a.has_flops && b.has_flops) {
    row("MFU, %", 100 * a.mfu, 100 * b.mfu, 1);
    row("HFU, %", 100 * a.hfu, 100 * b.hfu, 1);
  }
  return table.ToString();
}

std::string TimeTable(const Forecast& a, const Forecast& b) {
  Table table({{"where the time goes", Align::kLeft},
               {"A ms", Align::kRight},
               {"B ms", Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  const auto row = [&](const char* what, Time of_a, Time of_b) {
    table.AddRow({what, Milliseconds(of_a), Milliseconds(of_b), SignedTime(of_b - of_a),
                  ChangeOf(of_a.seconds(), of_b.seconds())});
  };
  const std::vector<forecast::TimePart> of_a = forecast::PartsOf(a.time);
  const std::vector<forecast::TimePart> of_b = forecast::PartsOf(b.time);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].always || of_a[i].time != Time() || of_b[i].time != Time()) {
      row(of_a[i].name, of_a[i].time, of_b[i].time);
    }
  }
  table.AddRule();
  row("step", a.step_time, b.step_time);
  row("communication in flight", a.communication_total, b.communication_total);
  return table.ToString();
}

std::string CollectiveTable(const Forecast& a, const Forecast& b) {
  const std::vector<CollectivePair> pairs = PairCollectives(a, b);
  if (pairs.empty()) return "no collectives\n";
  double most = 0;
  for (const CollectivePair& pair : pairs) {
    for (const forecast::CollectiveSummary* summary : {pair.a, pair.b}) {
      if (summary != nullptr) most = std::max(most, summary->wire_bytes_per_rank);
    }
  }
  const ByteUnit unit = UnitFor(most);
  Table table({{"collective", Align::kLeft},
               {"group", Align::kLeft},
               {"calls A", Align::kRight},
               {"B", Align::kRight},
               {fmt::format("sent {} A", unit.name), Align::kRight},
               {"B", Align::kRight},
               {"ms A", Align::kRight},
               {"B", Align::kRight},
               {"difference", Align::kRight}});
  for (const CollectivePair& pair : pairs) {
    const auto cell = [](const forecast::CollectiveSummary* summary, auto text) {
      return summary == nullptr ? std::string("-") : text(*summary);
    };
    const auto calls = [](const auto& summary) { return Grouped(summary.calls); };
    const auto bytes = [&](const auto& summary) { return In(unit, summary.wire_bytes_per_rank); };
    const auto time = [](const auto& summary) { return Milliseconds(summary.total); };
    const Time of_a = pair.a == nullptr ? Time() : pair.a->total;
    const Time of_b = pair.b == nullptr ? Time() : pair.b->total;
    table.AddRow({std::string(Name(pair.any().collective)), pair.any().group, cell(pair.a, calls),
                  cell(pair.b, calls), cell(pair.a, bytes), cell(pair.b, bytes), cell(pair.a, time),
                  cell(pair.b, time), SignedTime(of_b - of_a)});
  }
  return table.ToString();
}

std::string MemoryTable(const forecast::MemoryForecast& a, const forecast::MemoryForecast& b) {
  const ByteUnit unit = UnitFor(std::max({a.reserved, b.reserved, a.peak, b.peak}));
  Table table({{"memory at the peak", Align::kLeft},
               {fmt::format("A {}", unit.name), Align::kRight},
               {fmt::format("B {}", unit.name), Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  const auto row = [&](std::string what, Bytes of_a, Bytes of_b) {
    table.AddRow({std::move(what), In(unit, of_a), In(unit, of_b), SignedBytes(unit, of_b - of_a),
                  ChangeOf(static_cast<double>(of_a.count()), static_cast<double>(of_b.count()))});
  };
  for (std::size_t i = 0; i < a.at_peak.size(); ++i) {
    row(std::string(kCategoryNames[i]), a.at_peak[i], b.at_peak[i]);
  }
  table.AddRule();
  row("peak allocated", a.peak, b.peak);
  row("reserved by the allocator", a.reserved, b.reserved);
  row("outside the allocator", a.outside, b.outside);
  row("capacity", a.capacity, b.capacity);
  return table.ToString();
}

}  // namespace

std::string CompareText(const ComparedPlan& a, const ComparedPlan& b,
                        const std::vector<GuardVerdict>& guards) {
  std::string verdicts;
  for (const GuardVerdict& verdict : guards) {
    verdicts += fmt::format("guard {} {}\n", verdict.guard, verdict.sentence);
  }
  std::string hosts;
  for (const auto& [name, plan] : {std::pair("A", &a), std::pair("B", &b)}) {
    const auto& unknown = plan->forecast->unknown_host;
    if (unknown) hosts += fmt::format("{} host: {}\n", name, forecast::Sentence(*unknown));
  }
  return fmt::format(
      "A  {} ({})\nB  {} ({})\n\n{}\n{}{}\n{}\n{}\n{}\nA {}\nB {}\n{}", a.scenario->name, a.file,
      b.scenario->name, b.file, SettingsBeside(a, b), Figures(*a.forecast, *b.forecast), hosts,
      TimeTable(*a.forecast, *b.forecast), CollectiveTable(*a.forecast, *b.forecast),
      MemoryTable(a.forecast->memory, b.forecast->memory), MemorySentence(a.forecast->memory),
      MemorySentence(b.forecast->memory), verdicts.empty() ? "" : "\n" + verdicts);
}

}  // namespace stepcast::report
