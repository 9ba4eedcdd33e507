#include "src/report/timeline_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/program/description.h"
#include "src/report/charts.h"

namespace stepcast::report {
namespace {

using program::Instruction;
using program::kNone;
using program::Opcode;

// A page has at most two timelines. With them and the libraries it takes less than 2 MB.
constexpr std::size_t kMostBytes = 400'000;
constexpr std::size_t kFewBytes = 8;  // of a bar
constexpr std::size_t kMostBars = kMostBytes / kFewBytes;

BarKind KindOf(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kCollective:
    case Opcode::kExchange:
      return BarKind::kCommunication;
    case Opcode::kCopy:
      return BarKind::kCopy;
    case Opcode::kHostTask:
      return BarKind::kHost;
    default:
      break;
  }
  switch (instruction.phase) {
    case program::Phase::kForward:
      return BarKind::kForward;
    case program::Phase::kBackward:
      return BarKind::kBackward;
    case program::Phase::kBackwardWeight:
      return BarKind::kBackwardWeight;
    case program::Phase::kCheckpoint:
      return BarKind::kHost;
    case program::Phase::kOptimizer:
      return BarKind::kOptimizer;
  }
  return BarKind::kForward;
}

std::string NameOf(const program::Program& program, const Instruction& instruction) {
  if (instruction.opcode == Opcode::kCollective) {
    const program::Collective& collective = program.collectives[instruction.operand];
    const program::Communicator& communicator = program.communicators[collective.communicator];
    return fmt::format("{} of {}, group {}", Name(collective.kind), FormatBytes(collective.bytes),
                       program.groups[communicator.group].name);
  }
  if (instruction.opcode == Opcode::kExchange) {
    const program::Exchange& exchange = program.exchanges[instruction.operand];
    std::string text;
    for (const program::Message& message : exchange.messages) {
      if (!text.empty()) text += ", ";
      text += fmt::format("{} of {}", Name(message.direction), FormatBytes(message.bytes));
    }
    const program::Communicator& communicator = program.communicators[exchange.communicator];
    return fmt::format("{}, group {}", text, program.groups[communicator.group].name);
  }
  if (instruction.opcode == Opcode::kCopy) {
    return fmt::format("copy {}, {}", program::OperandName(program, instruction),
                       FormatBytes(program.copies[instruction.operand].bytes));
  }
  return program::OperandName(program, instruction);
}

// The layer, and the micro-batch if there are several.
std::string PlaceOf(const program::Program& program, const Instruction& instruction, bool several) {
  std::string place = instruction.label == kNone ? "" : program.labels[instruction.label];
  if (several) {
    if (!place.empty()) place += ", ";
    place += fmt::format("micro-batch {}", instruction.micro_batch + 1);
  }
  return place;
}

bool SeveralMicroBatches(const program::Program& program) {
  return std::any_of(program.step.begin(), program.step.end(),
                     [](const Instruction& instruction) { return instruction.micro_batch > 0; });
}

Time IssueCost(const cost::Prices& prices, Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
      return prices.issue_kernel;
    case Opcode::kCopy:
      return prices.issue_copy;
    case Opcode::kCollective:
    case Opcode::kExchange:
      return prices.issue_collective;
    default:
      return Time();
  }
}

// The bar of a time span, without texts. Nothing if no part of it is in the window.
std::optional<Bar> BarIn(const StepWindow& window, Time start, Time end, BarKind kind) {
  start = std::max(start, window.start);
  end = std::min(end, window.end);
  if (start >= end) return std::nullopt;
  return Bar{
      .start = start - window.start, .end = end - window.start, .kind = kind, .busy = end - start};
}

void SortBars(std::vector<Bar>& bars) {
  const auto before = [](const Bar& a, const Bar& b) {
    return std::tie(a.start, a.end) < std::tie(b.start, b.end);
  };
  if (!std::is_sorted(bars.begin(), bars.end(), before)) {
    std::stable_sort(bars.begin(), bars.end(), before);
  }
}

constexpr int kSameKind = 4;  // the color of a bar of one kind is exact, so it may be longer

// The length to which bars are joined first.
Time FinestBar(Time length) {
  constexpr std::int64_t kFinest = 1 << 16;
  return Picoseconds(std::max<std::int64_t>(1, length.picoseconds() / kFinest));
}

// Whether a bar and the bar before it are joined, if joined bars are at most `least` long.
bool Joins(const Bar& before, const Bar& bar, Time least) {
  return (before.kind == bar.kind ? 1 : kSameKind) * (bar.end - before.start) <= least;
}

// A bar of several kinds has the kind of its busiest part. Its name is left to NameJoined.
void Join(Bar& into, const Bar& bar) {
  if (bar.busy > into.busy) into.kind = bar.kind;
  into.end = std::max(into.end, bar.end);
  into.operations += bar.operations;
  into.busy += bar.busy;
  if (into.of != bar.of) into.of.clear();
  into.name.clear();
}

void NameJoined(std::vector<Bar>& bars) {
  for (Bar& bar : bars) {
    if (bar.name.empty()) bar.name = fmt::format("{} short operations", Grouped(bar.operations));
  }
}

// Joins consecutive issues: the host's work between two waits.
void JoinIssues(std::vector<Bar>& bars) {
  std::vector<Bar> joined;
  for (Bar& bar : bars) {
    const bool follows = !joined.empty() && bar.name == "issues" &&
                         joined.back().name == "issues" && bar.start <= joined.back().end;
    if (follows) {
      Join(joined.back(), bar);
      joined.back().name = bar.name;
    } else {
      joined.push_back(std::move(bar));
    }
  }
  for (Bar& bar : joined) {
    if (bar.name == "issues") {
      bar.name = fmt::format("issues {} {}", Grouped(bar.operations),
                             bar.operations == 1 ? "operation" : "operations");
    }
  }
  bars = std::move(joined);
}

std::size_t Count(const std::vector<Lane>& lanes) {
  std::size_t count = 0;
  for (const Lane& lane : lanes) count += lane.bars.size();
  return count;
}

Table LaneTable(const std::vector<Lane>& lanes, Time length) {
  Table table({{"stream", Align::kLeft},
               {"operations", Align::kRight},
               {"busy ms", Align::kRight},
               {"% of the step", Align::kRight}});
  for (const Lane& lane : lanes) {
    std::int64_t operations = 0;
    Time busy;
    for (const Bar& bar : lane.bars) {
      if (bar.kind == BarKind::kWait) continue;
      operations += bar.operations;
      busy += bar.busy;
    }
    table.AddRow({lane.name, Grouped(operations), Milliseconds(busy), Percent(busy, length)});
  }
  return table;
}

Table LongestTable(const std::vector<Lane>& lanes) {
  constexpr std::size_t kShown = 40;
  struct Placed {
    const Lane* lane;
    const Bar* bar;
    Time length;
  };
  std::vector<Placed> all;
  for (const Lane& lane : lanes) {
    for (const Bar& bar : lane.bars) all.push_back({&lane, &bar, bar.end - bar.start});
  }
  // Equal bars keep their order.
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kShown));
  std::partial_sort(all.begin(), end, all.end(), [](const Placed& a, const Placed& b) {
    return std::tie(b.length, a.lane, a.bar) < std::tie(a.length, b.lane, b.bar);
  });
  all.erase(end, all.end());
  Table table({{"operation", Align::kLeft},
               {"of", Align::kLeft},
               {"stream", Align::kLeft},
               {"for", Align::kLeft},
               {"starts ms", Align::kRight},
               {"takes ms", Align::kRight}});
  for (const auto& [lane, bar, length] : all) {
    table.AddRow({bar->name, bar->of, lane->name, Name(bar->kind), Milliseconds(bar->start),
                  Milliseconds(length)});
  }
  return table;
}

// The resolution of the bars in the page: a millionth of the step, from 1 ns to 1 us.
Time TickOf(Time length) {
  return std::clamp(Nanoseconds(length.picoseconds() / 1'000'000'000), Nanoseconds(1),
                    Microseconds(1));
}

ChartData DataOf(const std::vector<Lane>& lanes, Time tick) {
  ChartData data;
  const auto ticks = [&](Time time) { return std::llround(time / tick); };
  for (const Lane& lane : lanes) {
    std::int64_t before = 0;  // the end of the last bar
    for (const Bar& bar : lane.bars) {
      const std::int64_t start = ticks(bar.start), end = ticks(bar.end);
      data.Number("gap", static_cast<double>(start - before));
      data.Number("length", static_cast<double>(end - start));
      data.Number("idle", static_cast<double>(ticks(bar.end - bar.start - bar.busy)));
      data.Word("kind", Name(bar.kind));
      data.Word("name", bar.name);
      data.Word("of", bar.of);
      data.Number("operations", static_cast<double>(bar.operations));
      before = end;
    }
  }
  return data;
}

std::size_t SizeOf(const ChartData& data) { return OneLine(data.ToJson()).size(); }

Json Spec(const std::vector<Lane>& lanes, double length, const std::string& unit) {
  std::array<bool, kBarKinds> present{};
  Json names = Json::array();
  for (const Lane& lane : lanes) {
    names.push_back(lane.name);
    for (const Bar& bar : lane.bars) present[static_cast<std::size_t>(bar.kind)] = true;
  }
  Palette palette;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (present[i]) palette.emplace_back(kBarStyles[i].name, kBarStyles[i].colour);
  }
  // Few bars are apart from their neighbors of the same color.
  constexpr std::size_t kFew = 500;
  const bool few = Count(lanes) <= kFew;
  constexpr int kLane = 42, kLeast = 90;
  const auto is = [](BarKind kind) { return fmt::format("datum.kind === '{}'", Name(kind)); };
  // Names are written in the bars that hold them (page.js).
  return ChartForm("timeline",
                   {{"height", std::max(kLeast, kLane * static_cast<int>(lanes.size()))},
                    {"title", "time since the step began, " + unit},
                    {"length", length},
                    {"lanes", std::move(names)},
                    {"kinds", ColourBy("kind", palette)},
                    {"edge", few ? "var(--paper)" : "transparent"},
                    {"edge width", few ? 1.0 : 0.0},
                    {"is wait", is(BarKind::kWait)},
                    {"is communication", is(BarKind::kCommunication)}});
}

}  // namespace

std::vector<Lane> LanesOf(const StepWindow& window) {
  const program::Program& program = *window.program;
  const bool several = SeveralMicroBatches(program);
  std::vector<Lane> lanes{{.name = window.prefix + "host"}};
  for (const program::Stream& stream : program.streams) {
    lanes.push_back({.name = window.prefix + stream.name});
  }
  for (const program::OperationRecord& record : window.timeline->operations) {
    const Instruction& instruction = program.step[record.instruction];
    const bool on_host = instruction.opcode == Opcode::kHostTask;
    if (auto bar = BarIn(window, record.start, record.end, KindOf(instruction))) {
      bar->name = NameOf(program, instruction);
      bar->of = PlaceOf(program, instruction, several);
      lanes[on_host ? 0 : 1 + instruction.stream].bars.push_back(*std::move(bar));
    }
    if (window.prices == nullptr || on_host) continue;
    const Time cost = IssueCost(*window.prices, instruction.opcode);
    if (auto bar = BarIn(window, record.issued - cost, record.issued, BarKind::kHost)) {
      bar->name = "issues";
      lanes[0].bars.push_back(*std::move(bar));
    }
  }
  for (const program::WaitRecord& wait : window.timeline->waits) {
    const Instruction& instruction = program.step[wait.instruction];
    if (instruction.opcode != Opcode::kHostWaitEvent) continue;
    if (auto bar = BarIn(window, wait.start, wait.end, BarKind::kWait)) {
      bar->name = fmt::format("waits for {}", program.NameOf(program.events[instruction.operand]));
      lanes[0].bars.push_back(*std::move(bar));
    }
  }
  for (Lane& lane : lanes) SortBars(lane.bars);
  JoinIssues(lanes.front().bars);
  std::erase_if(lanes, [](const Lane& lane) { return lane.bars.empty(); });
  return lanes;
}

Lane ComputeLaneOf(const StepWindow& window) {
  const program::Program& program = *window.program;
  const bool several = SeveralMicroBatches(program);
  std::vector<std::pair<Bar, const Instruction*>> bars;
  for (const program::OperationRecord& record : window.timeline->operations) {
    const Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == Opcode::kHostTask ||
        instruction.stream != program::Program::kComputeStream) {
      continue;
    }
    if (auto bar = BarIn(window, record.start, record.end, KindOf(instruction))) {
      bars.emplace_back(*std::move(bar), &instruction);
    }
  }
  // More bars than a chart draws are joined before they get names, which take most of the time.
  const Time least = bars.size() > kMostBars ? FinestBar(window.end - window.start) : Time();
  Lane lane;
  const Instruction* first = nullptr;  // of the last bar
  for (auto& [bar, instruction] : bars) {
    if (first != nullptr && Joins(lane.bars.back(), bar, least)) {
      const bool here =
          instruction->label == first->label && instruction->micro_batch == first->micro_batch;
      if (here) bar.of = lane.bars.back().of;
      Join(lane.bars.back(), bar);
      continue;
    }
    first = instruction;
    bar.name = NameOf(program, *instruction);
    bar.of = PlaceOf(program, *instruction, several);
    lane.bars.push_back(std::move(bar));
  }
  NameJoined(lane.bars);
  SortBars(lane.bars);
  return lane;
}

Time JoinShortBars(std::vector<Lane>& lanes, std::size_t most) {
  Time longest;
  for (const Lane& lane : lanes) {
    if (!lane.bars.empty()) longest = std::max(longest, lane.bars.back().end);
  }
  Time least = FinestBar(longest);
  Time joined_to;
  while (Count(lanes) > most && joined_to < kSameKind * longest) {
    for (Lane& lane : lanes) {
      std::vector<Bar> joined;
      for (Bar& bar : lane.bars) {
        if (!joined.empty() && Joins(joined.back(), bar, least)) {
          Join(joined.back(), bar);
        } else {
          joined.push_back(std::move(bar));
        }
      }
      NameJoined(joined);
      lane.bars = std::move(joined);
    }
    joined_to = least;
    least = 2 * least;
  }
  return joined_to;
}

TimelineFigure TimelineChart(std::vector<Lane> lanes, Time length, const std::string& label,
                             const std::string& unit) {
  Table lane_table = LaneTable(lanes, length);
  Table longest = LongestTable(lanes);
  std::string note;
  const Time tick = TickOf(length);
  std::int64_t operations = 0;
  for (const Lane& lane : lanes) {
    for (const Bar& bar : lane.bars) {
      if (bar.kind != BarKind::kHost && bar.kind != BarKind::kWait) operations += bar.operations;
    }
  }
  // Bars take several bytes each, so more than these are joined before their size is measured.
  Time joined = JoinShortBars(lanes, kMostBars);
  ChartData data = DataOf(lanes, tick);
  std::size_t bytes = SizeOf(data);
  for (bool fewer = true; fewer && bytes > kMostBytes; bytes = SizeOf(data)) {
    const std::size_t bars = Count(lanes);
    joined = std::max(joined, JoinShortBars(lanes, bars * kMostBytes / bytes));
    fewer = Count(lanes) < bars;
    data = DataOf(lanes, tick);
  }
  if (joined > Time()) {
    note = fmt::format(
        "The step has {} operations. Neighboring operations are drawn as one if they take at most "
        "{} together.",
        Grouped(operations),
        unit == "ms" ? FormatTime(joined)
                     : fmt::format("{:.0f} {}", std::floor(InMilliseconds(joined)), unit));
  }
  Chart chart;
  chart.label = label;
  chart.spec = Spec(lanes, InMilliseconds(length), unit);
  chart.data = std::move(data);
  chart.tick = tick / stepcast::Milliseconds(1);
  for (const Lane& lane : lanes) chart.lanes.push_back({lane.name, lane.bars.size()});
  chart.window = {0, InMilliseconds(length)};
  const int digits = unit == "ms" ? 3 : 0;
  chart.tips = {{"name", "Operation"},
                {"of", "Of"},
                {"lane", "Stream"},
                {"kind", "For"},
                {"start", "Starts", unit, digits},
                {"end", "Ends", unit, digits},
                {"busy", "Takes", unit, digits}};
  return {std::move(chart), std::move(note), std::move(lane_table), std::move(longest)};
}

void Draw(TimelineFigure& figure, PageSection& section) {
  section.chart = std::move(figure.chart);
  if (!figure.note.empty()) section.notes.push_back(std::move(figure.note));
}

void DrawTraced(TimelineFigure& figure, PageSection& section) {
  if (!figure.note.empty()) figure.note += " A trace (--trace) shows every operation.";
  Draw(figure, section);
  section.tables = {
      {.caption = "Utilization of each stream", .table = std::move(figure.lanes)},
      {.caption = "The longest operations", .table = std::move(figure.longest), .folded = true}};
}

}  // namespace stepcast::report
