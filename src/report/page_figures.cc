#include "src/report/page_figures.h"

#include <array>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/report/number_text.h"
#include "src/report/simulate_text.h"

namespace stepcast::report {

Palette BreakdownPalette(bool flushes) {
  Palette palette = {{"forward", "--forward"},
                     {"backward", "--backward"},
                     {"optimizer", "--optimizer"},
                     {"exposed communication", "--communication"},
                     {"idle", "--idle"}};
  if (flushes) palette.emplace_back("allocator flushes", "--bad");
  return palette;
}

void AddBreakdown(ChartData& data, const std::string& bar, const forecast::TimeBreakdown& time,
                  Time step) {
  const std::array<Time, 6> parts = {time.phase[0], time.phase[1],
                                     time.phase[2], time.exposed_communication,
                                     time.idle,     time.allocator_flushes};
  const Palette palette = BreakdownPalette(time.allocator_flushes > Time());
  for (std::size_t i = 0; i < palette.size(); ++i) {
    constexpr double kHundred = 100;
    data.Word("bar", bar);
    data.Word("part", palette[i].first);
    data.Number("value", InMilliseconds(parts[i]));
    data.Number("share", step > Time() ? Rounded(kHundred * (parts[i] / step)) : 0);
  }
}

namespace {

Tone ToneOf(forecast::MemoryVerdict verdict) {
  switch (verdict) {
    case forecast::MemoryVerdict::kFits:
      return Tone::kGood;
    case forecast::MemoryVerdict::kFitsWithinError:
      return Tone::kPlain;
    case forecast::MemoryVerdict::kDoesNotFit:
      break;
  }
  return Tone::kBad;
}

}  // namespace

std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast) {
  std::vector<PageFigure> figures;
  const auto& range = forecast.step_time_range;
  figures.push_back({.label = "Step time",
                     .value = FormatTime(forecast.step_time),
                     .more = range ? fmt::format("nine of ten within {} to {}",
                                                 FormatTime(range->low), FormatTime(range->high))
                                   : ""});
  figures.push_back(
      {.label = "Throughput",
       .value = fmt::format("{} tokens/s", Decimal(forecast.tokens_per_second, 0)),
       .more = fmt::format("{} tokens/s per GPU", Decimal(forecast.tokens_per_second_per_gpu, 1))});
  if (forecast.has_flops) {
    figures.push_back({.label = "Model FLOPs utilization",
                       .value = fmt::format("{} %", Decimal(100 * forecast.mfu, 1)),
                       .more = fmt::format("HFU {} %", Decimal(100 * forecast.hfu, 1))});
  }
  const forecast::MemoryForecast& memory = forecast.memory;
  figures.push_back({.label = "Peak memory",
                     .value = FormatBytes(memory.peak),
                     .more = Verdict(memory),
                     .tone = ToneOf(memory.verdict())});
  return figures;
}

StepWindow WindowOf(const forecast::Run& run) {
  STEPCAST_CHECK(run.first_step < run.timeline.step_ends.size(), "the forecast's step was run");
  return {.program = &run.program,
          .timeline = &run.timeline,
          .prices = &run.prices,
          .start = run.first_step == 0 ? Time() : run.timeline.step_ends[run.first_step - 1],
          .end = run.timeline.step_ends[run.first_step]};
}

}  // namespace stepcast::report
