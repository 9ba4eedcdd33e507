#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/memory/account.h"
#include "src/report/answers.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/pages.h"
#include "src/report/step_figures.h"
#include "src/report/table.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

using program::Instruction;
using program::Opcode;

// When the compute stream reaches each instruction of a step: the start of its first operation at
// or after the instruction.
std::vector<Time> ReachedAt(const program::Program& program, const program::Timeline& timeline,
                            std::uint32_t step, Time start, Time end) {
  std::vector<Time> reached(program.step.size(), end);
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const Instruction& instruction = program.step[record.instruction];
    const bool computes = instruction.opcode == Opcode::kKernel &&
                          instruction.stream == program::Program::kComputeStream;
    if (computes) reached[record.instruction] = std::clamp(record.start, start, end);
  }
  Time next = end;
  for (std::size_t i = reached.size(); i-- > 0;) {
    next = std::min(next, reached[i]);
    reached[i] = next;
  }
  return reached;
}

// The bytes of categories over time, stacked.
class MemoryDrawing {
 public:
  MemoryDrawing(const std::vector<MemoryInstant>& instants, Time length,
                const forecast::MemoryForecast& memory)
      : instants_(instants), end_(InMilliseconds(length)), capacity_(memory.capacity) {
    for (const MemoryInstant& instant : instants) most_ = std::max(most_, Total(instant.bytes));
    unit_ = UnitFor(most_);
    for (std::size_t i = 0; i < program::kCategories; ++i) {
      const bool present = std::any_of(instants.begin(), instants.end(), [&](const auto& instant) {
        return instant.bytes[i] > Bytes();
      });
      if (present) present_.push_back(i);
    }
  }

  Chart Draw() const {
    constexpr int kDigits = 2;
    Chart chart;
    chart.label = fmt::format(
        "Allocated memory over one step, stacked by category, at most {} {}; the table below lists "
        "the buffers alive at the peak",
        Decimal(Amount(most_), kDigits), unit_.name);
    chart.tips = {{"time", "Time", "ms", 3}, {"total", "Allocated", unit_.name, kDigits}};
    for (const std::size_t i : present_) {
      const std::string name(kCategoryNames[i]);
      chart.tips.push_back({name, name, unit_.name, kDigits});
    }
    for (std::size_t at = 0; at < instants_.size(); ++at) {
      const double until =
          at + 1 < instants_.size() ? InMilliseconds(instants_[at + 1].start) : end_;
      AddRow(InMilliseconds(instants_[at].start), until, instants_[at].bytes, chart.data);
    }
    // The areas need a point at the window's end.
    AddRow(end_, end_, instants_.back().bytes, chart.data);
    chart.spec = Spec();
    return chart;
  }

 private:
  double Amount(Bytes bytes) const { return AmountIn(unit_, bytes); }
  bool shows_capacity() const { return DrawsCapacity(capacity_, most_); }

  void AddRow(double from, double until, const forecast::BytesByCategory& bytes,
              ChartData& data) const {
    data.Number("time", from);
    data.Number("until", until);
    data.Number("total", Amount(Total(bytes)));
    for (const std::size_t i : present_) data.Number(kCategoryNames[i], Amount(bytes[i]));
  }

  Json Spec() const {
    Palette palette;
    Json categories = Json::array();
    for (const std::size_t i : present_) {
      palette.emplace_back(kCategoryNames[i], ColourOf(static_cast<program::Category>(i)));
      categories.push_back(kCategoryNames[i]);
    }
    Json values{{"place", "indexof(" + OneLine(categories) + ", datum.category)"},
                {"categories", std::move(categories)},
                {"colors", ColourBy("category", palette)},
                {"y", fmt::format("allocated, {}", unit_.name)},
                {"top", Amount(shows_capacity() ? std::max(capacity_, most_) : most_) * 1.04},
                {"end", end_}};
    if (shows_capacity()) {
      values["limit"] = Amount(capacity_);
      values["limit words"] = fmt::format("capacity {}", FormatBytes(capacity_));
    }
    // Invisible columns carry the tooltips; only the focused one is drawn.
    return ChartForm("memory over time", values);
  }

  const std::vector<MemoryInstant>& instants_;
  double end_;  // ms
  Bytes capacity_, most_;
  std::vector<std::size_t> present_;  // categories with bytes
  ByteUnit unit_{};
};

}  // namespace

std::vector<MemoryInstant> MemoryOver(const program::Program& program,
                                      const program::Timeline& timeline,
                                      const memory::Account& account, std::uint32_t step,
                                      Time start, Time end, std::size_t most) {
  const std::vector<Time> reached = ReachedAt(program, timeline, step, start, end);
  memory::Balance balance;
  auto next = account.changes.begin();
  for (; next != account.changes.end() && next->step < step; ++next) balance.Apply(program, *next);
  // Equal parts of the window at the finest visible resolution, each with its largest state.
  const Time part = Picoseconds(
      std::max<std::int64_t>(1, (end - start).picoseconds() / static_cast<std::int64_t>(most)));
  const auto slot_of = [&](Time at) { return at.picoseconds() / part.picoseconds(); };
  std::vector<MemoryInstant> instants{{Time(), balance.by_category()}};
  for (; next != account.changes.end() && next->step == step; ++next) {
    const bool in_prologue = next->instruction == program::kNone;
    const Time at = in_prologue ? Time() : reached[next->instruction] - start;
    const std::int64_t slot = slot_of(at), last = slot_of(instants.back().start);
    // The final state of the last part, if it is not its largest.
    if (slot > last + 1 && instants.back().bytes != balance.by_category()) {
      instants.push_back({(last + 1) * part, balance.by_category()});
    }
    balance.Apply(program, *next);
    if (slot != slot_of(instants.back().start)) {
      instants.push_back({at, balance.by_category()});
    } else if (balance.total() >= Total(instants.back().bytes)) {
      instants.back().bytes = balance.by_category();
    }
  }
  return instants;
}

namespace {

// The part of a long timeline that its chart shows first: the middle micro-batch, from its first
// forward kernel to that of the next one. If the step can be read whole, nothing changes.
void OpenAtMicroBatch(const StepWindow& window, PageSection& section) {
  constexpr std::size_t kReadable = 1'000;  // bars
  Chart& chart = *section.chart;
  const auto& lanes = chart.lanes;
  if (std::none_of(lanes.begin(), lanes.end(),
                   [](const Chart::TimelineLane& lane) { return lane.bars > kReadable; })) {
    return;
  }
  std::vector<Time> starts;  // of micro-batches
  for (const program::OperationRecord& record : window.timeline->operations) {
    const Instruction& instruction = window.program->step[record.instruction];
    if (instruction.opcode != Opcode::kKernel || instruction.phase != program::Phase::kForward ||
        instruction.stream != program::Program::kComputeStream || record.start < window.start ||
        record.start >= window.end) {
      continue;
    }
    starts.resize(std::max<std::size_t>(starts.size(), instruction.micro_batch + 1U), window.end);
    Time& start = starts[instruction.micro_batch];
    start = std::min(start, record.start);
  }
  if (starts.size() < 2) return;
  const std::size_t middle = starts.size() / 2 - 1;
  if (starts[middle] >= starts[middle + 1]) return;
  chart.opened = {InMilliseconds(starts[middle] - window.start),
                  InMilliseconds(starts[middle + 1] - window.start)};
  chart.spec["layer"][0]["params"][0]["value"] = {
      {"x", {chart.opened->first, chart.opened->second}}};
  section.notes.push_back(
      fmt::format("The chart opens at micro-batch {} of {}. The button Whole "
                  "step shows all micro-batches.",
                  middle + 1, starts.size()));
}

PageSection TimelineSection(const scenario::Scenario& scenario, const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  const int ranks = scenario.cluster->devices();
  const int rank = run.critical_class().first_rank;
  TimelineFigure figure = TimelineChart(
      LanesOf(window), window.end - window.start,
      fmt::format("Timeline of one step on rank {}: the operations of its streams and its host",
                  rank));
  PageSection section{.heading = "Timeline of one step"};
  if (ranks == 1) {
    section.paragraphs = {"One step in the steady state, stream by stream."};
  } else if (!run.forecast.classes.empty()) {
    section.paragraphs = {
        fmt::format("One step in the steady state, stream by stream, on rank {}, which is the last "
                    "rank to end the step. The table of classes above lists the other ranks.",
                    rank)};
  } else if (scenario.network == scenario::Fidelity::kAnalytic) {
    section.paragraphs = {
        fmt::format("One step in the steady state, stream by stream. All {} ranks run the same "
                    "program under the same conditions, so rank {} represents all of them.",
                    Grouped(ranks), rank)};
  } else {
    section.paragraphs = {
        fmt::format("One step in the steady state, stream by stream, on rank {}. Identical ranks, "
                    "with identical links, are simulated once. Collectives wait for their last "
                    "rank, so this rank shows the delays that other ranks cause.",
                    rank)};
  }
  DrawTraced(figure, section);
  OpenAtMicroBatch(window, section);
  return section;
}

PageSection ClassesSection(const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  TimelineFigure figure = TimelineChart(LanesOfClasses(run), window.end - window.start,
                                        "The compute stream of each class of ranks in one step");
  PageSection section{.heading = "The same step in each class of ranks"};
  section.paragraphs = {
      "Each row shows the compute stream of the first rank of a class. In gaps, the stream waits "
      "for other ranks, for communication or for the host."};
  Draw(figure, section);
  return section;
}

PageSection MemorySection(const forecast::Run& run) {
  const forecast::MemoryForecast& memory = run.forecast.memory;
  const forecast::ClassRun& own = run.fullest_class();
  const auto& ends = own.timeline.step_ends;
  // The peak belongs to the whole run, so show a step that contains it.
  const std::uint32_t step =
      memory::StepOfPeak(own.program, own.memory, run.first_step, run.first_step);
  const Time start = step == 0 ? Time() : ends[step - 1], end = ends[step];
  constexpr std::size_t kMostInstants = 500;
  const std::vector<MemoryInstant> instants =
      MemoryOver(own.program, own.timeline, own.memory, step, start, end, kMostInstants);
  PageSection section{.heading = "Memory over the step"};
  section.paragraphs = {
      "Allocated memory at each point of the program, drawn at the time at which the compute "
      "stream reaches the point. The host allocates the memory earlier, because it runs ahead of "
      "the device."};
  section.chart = MemoryDrawing(instants, end - start, memory).Draw();
  if (step != run.first_step) {
    section.notes.push_back(
        fmt::format("The chart shows step {} of the run, in which the memory reaches its peak. All "
                    "times on the page are from step {}.",
                    step, run.first_step));
  }
  if (instants.size() >= kMostInstants / 2) {
    section.notes.push_back(
        "If several times are at the same pixel, the chart shows the largest memory of these "
        "times.");
  }
  section.tables.push_back({.caption = fmt::format("Memory at the peak, on rank {}", memory.rank),
                            .table = MemoryRows(memory)});
  return section;
}

PageSection CollectiveSection(const forecast::Forecast& forecast) {
  PageSection section{.heading = "Collectives"};
  if (forecast.collectives.empty()) {
    section.paragraphs = {"The step has no collectives."};
    return section;
  }
  section.paragraphs = {
      fmt::format("Communication is in flight for {} ms of the step, and "
                  "exposed for {} ms.",
                  Milliseconds(forecast.communication_total),
                  Milliseconds(forecast.time.exposed_communication))};
  section.tables.push_back(
      {.caption = "One step on one rank", .table = CollectiveRows(forecast).ToTable()});
  return section;
}

}  // namespace

std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run,
                         const std::string& trace) {
  Page page = PageOf(scenario, "Forecast of one training step");
  page.verdict =
      fmt::format("A step takes {}{} and {}.", FormatTime(run.forecast.step_time),
                  RangeText(run.forecast.step_time_range), MemorySentence(run.forecast.memory));
  page.tone = ToneOf(run.forecast.memory.verdict());
  page.answer = AnswerOf(run.forecast);
  page.sections = {BreakdownSection(run.forecast)};
  if (run.classes.size() > 1) page.sections.push_back(ClassesSection(run));
  page.sections.push_back(TimelineSection(scenario, run));
  if (!trace.empty()) {
    page.sections.back().links = {
        {fmt::format("Open {} in Perfetto", trace), "https://ui.perfetto.dev"}};
  }
  page.sections.push_back(MemorySection(run));
  page.sections.push_back(CollectiveSection(run.forecast));
  return PageHtml(page);
}

}  // namespace stepcast::report
