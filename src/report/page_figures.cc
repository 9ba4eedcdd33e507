#include "src/report/page_figures.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/forecast/training_run.h"
#include "src/report/answers.h"
#include "src/report/step_figures.h"

namespace stepcast::report {

namespace {

// Colors by TimePart::key.
constexpr std::pair<std::string_view, const char*> kPartColours[] = {
    {"forward", "--forward"},
    {"backward", "--backward"},
    {"backward_weight", "--backward-weight"},
    {"optimizer", "--optimizer"},
    {"checkpoint_saving", "--host"},
    {"exposed_communication", "--communication"},
    {"imbalance", "--wait"},
    {"pipeline_bubble", "--c9"},
    {"idle", "--idle"},
    {"allocator_flushes", "--bad"},
    {"learned", "--copy"},
};

const char* ColourOfPart(std::string_view key) {
  for (const auto& [part, colour] : kPartColours) {
    if (part == key) return colour;
  }
  STEPCAST_CHECK(false, "each part of a breakdown must have a color");
  return "";
}

}  // namespace

Chart BreakdownChart(const std::string& label, const std::vector<StepBar>& bars) {
  ChartData data;
  Palette palette;
  for (const auto& [name, step] : bars) {
    for (const forecast::TimePart& part : forecast::PartsOf(step->time)) {
      // Learned time may be negative, which a bar cannot show.
      if (!part.always && part.time <= Time()) continue;
      const std::pair<std::string, std::string> coloured{part.name, ColourOfPart(part.key)};
      if (std::find(palette.begin(), palette.end(), coloured) == palette.end()) {
        palette.push_back(coloured);
      }
      data.Word("bar", name);
      data.Word("part", part.name);
      data.Number("value", InMilliseconds(part.time));
      data.Number("share",
                  step->step_time > Time() ? Rounded(kHundred * (part.time / step->step_time)) : 0);
    }
  }
  return StackedBars(label, "ms", std::move(data), palette, static_cast<int>(bars.size()));
}

Tone ToneOf(forecast::MemoryVerdict verdict) {
  using enum forecast::MemoryVerdict;
  return verdict == kFits ? Tone::kGood : verdict == kMayNotFit ? Tone::kPlain : Tone::kBad;
}

Page PageOf(const scenario::Scenario& scenario, std::string kind) {
  return {.kind = std::move(kind),
          .title = scenario.name,
          .asked = ForecastFacts(scenario),
          .warnings = scenario.warnings,
          .appendices = {
              {"The scenario, including all default values", Text(ToJson(scenario.resolved))}}};
}

std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast) {
  std::vector<PageFigure> figures;
  const auto& range = forecast.step_time_range;
  figures.push_back({.label = "Step time",
                     .value = FormatTime(forecast.step_time),
                     .more = range ? fmt::format("90 % range: {} to {}", FormatTime(range->low),
                                                 FormatTime(range->high))
                                   : ""});
  for (const StepFigure& figure : StepFigures(forecast)) {
    if (figure.value) {
      figures.push_back({.label = figure.title, .value = figure.text(), .more = figure.name});
    }
  }
  const forecast::MemoryForecast& memory = forecast.memory;
  figures.push_back({.label = "Peak memory",
                     .value = FormatBytes(memory.peak),
                     .more = MemorySentence(memory),
                     .tone = ToneOf(memory.verdict())});
  return figures;
}

PageSection BreakdownSection(const forecast::Forecast& forecast) {
  PageSection section{.heading = "Time breakdown"};
  section.paragraphs = {
      "While a kernel runs, time counts toward the kernel's phase. Otherwise, if a stream waits "
      "for a collective or a message, time counts as exposed communication. A wait for a late "
      "rank counts as imbalance, and a wait for another stage as pipeline bubble. The rest is "
      "idle time. The parts add up to the step."};
  section.chart = BreakdownChart(
      "Time breakdown of one step, as one stacked bar; the table below lists its parts",
      {{"step", &forecast}});
  section.tables.push_back(
      {.caption = "Parts of the step", .table = TimeRows(forecast), .folded = false});
  if (!forecast.classes.empty()) {
    section.tables.push_back({.caption = "The parts of the step, for each class of ranks",
                              .table = ClassRows(forecast),
                              .folded = false});
  }
  return section;
}

MemoryBar MemoryBarOf(std::string name, const forecast::MemoryForecast& memory) {
  return {.name = std::move(name),
          .bytes = memory.at_peak,
          .unused = memory.reserved - memory.peak,
          .outside = memory.outside};
}

const char* ColourOf(program::Category category) {
  constexpr std::array<const char*, program::kCategories> kColours = {
      "--parameters", "--gradients", "--states", "--activations", "--gathered", "--workspace"};
  return kColours[static_cast<std::size_t>(category)];
}

Chart MemoryBars(const std::string& label, const std::vector<MemoryBar>& bars, Bytes capacity) {
  Palette parts;
  for (std::size_t i = 0; i < program::kCategories; ++i) {
    parts.emplace_back(kCategoryNames[i], ColourOf(static_cast<program::Category>(i)));
  }
  parts.emplace_back("reserved and not used", "--idle");
  parts.emplace_back("outside the allocator", "--host");
  std::vector<ByteBar> sizes;
  for (const MemoryBar& bar : bars) {
    ByteBar& own = sizes.emplace_back(bar.name, std::vector(bar.bytes.begin(), bar.bytes.end()));
    own.second.insert(own.second.end(), {bar.unused, bar.outside});
  }
  return ByteBars(label, sizes, parts, capacity);
}

std::vector<Lane> LanesOfClasses(const forecast::Run& run) {
  std::vector<Lane> lanes;
  const bool stages = run.classes.back().label.stage != run.classes.front().label.stage;
  for (const forecast::ClassRun& own : run.classes) {
    Lane lane = ComputeLaneOf(WindowOf(run, own));
    if (lane.bars.empty()) continue;
    lane.name = stages ? fmt::format("stage {}, rank {}", own.label.stage, own.first_rank)
                       : fmt::format("rank {}", own.first_rank);
    if (!own.device.empty()) lane.name += fmt::format(", {}", own.device);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

StepWindow WindowOf(const forecast::Run& run, const forecast::ClassRun& own) {
  const std::vector<Time>& ends = own.timeline.step_ends;
  STEPCAST_CHECK(run.first_step < ends.size(), "the step of the forecast must have been simulated");
  return {.program = &own.program,
          .timeline = &own.timeline,
          .prices = &own.prices,
          .start = run.first_step == 0 ? Time() : ends[run.first_step - 1],
          .end = ends[run.first_step]};
}

StageRows StageRowsOf(std::string name, const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  return {
      .name = std::move(name), .lanes = LanesOfClasses(run), .length = window.end - window.start};
}

PageSection StagesSection(const std::vector<StageRows>& plans) {
  std::vector<Lane> lanes;
  Time longest;
  for (const StageRows& plan : plans) {
    longest = std::max(longest, plan.length);
    for (Lane lane : plan.lanes) {
      lane.name = fmt::format("{}: {}", plan.name, lane.name);
      lanes.push_back(std::move(lane));
    }
  }
  TimelineFigure figure =
      TimelineChart(std::move(lanes), longest, "The computation of each plan's stages in one step");
  PageSection section{.heading = "Stages"};
  section.paragraphs = {
      "Each row shows the compute stream of one stage of a plan that fits, on a common time axis. "
      "In gaps, the stream waits for other stages, for communication or for the host."};
  Draw(figure, section);
  return section;
}

}  // namespace stepcast::report
