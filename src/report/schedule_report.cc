#include "src/report/schedule_report.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "src/parallel/schedule_text.h"
#include "src/report/json_values.h"
#include "src/report/number_text.h"
#include "src/report/schedule_drawing.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

std::string Slots(std::int64_t slots) {
  return fmt::format("{} slot{}", slots, slots == 1 ? "" : "s");
}

std::string Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-"
                    : Decimal(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1);
}

std::int64_t Whole(const parallel::PassDurations& durations) {
  return durations.Of(parallel::Action{parallel::Task::kBackward, 0, 0});
}

}  // namespace

std::string ScheduleText(const TimedSchedule& schedule, const TerminalStyle& style) {
  const parallel::ScheduleTiming& timing = schedule.timing;
  const std::size_t stages = schedule.schedule.stages.size();
  std::string text = fmt::format(
      "{}: {} stage{}, {} micro-batch{}; forward {}, backward {} ({} of inputs, {} of "
      "weights)\n\n",
      schedule.name, stages, stages == 1 ? "" : "s", schedule.schedule.micro_batches,
      schedule.schedule.micro_batches == 1 ? "" : "es", Slots(schedule.durations.forward),
      Whole(schedule.durations), schedule.durations.backward_input,
      schedule.durations.backward_weight);
  text += ScheduleDrawing(schedule.schedule, timing, style);

  Table table({{"stage"}, {"chunks", Align::kLeft}, {"in flight"}, {"busy"}, {"idle"}, {"idle %"}});
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::string chunks;
    for (const int chunk : schedule.schedule.stages[stage].chunks) {
      chunks += fmt::format("{}{}", chunks.empty() ? "" : " ", chunk);
    }
    table.AddRow({fmt::format("{}", stage), chunks, fmt::format("{}", schedule.in_flight[stage]),
                  Grouped(timing.slots - timing.idle[stage]), Grouped(timing.idle[stage]),
                  Share(timing.idle[stage], timing.slots)});
  }
  const std::int64_t idle =
      std::accumulate(timing.idle.begin(), timing.idle.end(), std::int64_t{0});
  const std::int64_t all = timing.slots * static_cast<std::int64_t>(stages);
  text += fmt::format(
      "\n{}\nstep of {}; bubble {} % of it, {} % of what is computed\n"
      "in flight: the most micro-batches whose activations a stage holds at once\n",
      table.ToString(), Slots(timing.slots), Share(idle, all), Share(idle, all - idle));
  return text;
}

std::string ScheduleJson(const TimedSchedule& schedule) {
  const parallel::ScheduleTiming& timing = schedule.timing;
  Json stages = Json::array();
  for (std::size_t number = 0; number < schedule.schedule.stages.size(); ++number) {
    const parallel::PipelineSchedule::Stage& stage = schedule.schedule.stages[number];
    Json actions = Json::array();
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      actions.push_back(Json{
          {"action",
           parallel::Print(stage.entries[i], stage.chunks.size() == 1 ? stage.chunks.front() : -1)},
          {"begin", timing.spans[number][i].begin},
          {"end", timing.spans[number][i].end}});
    }
    stages.push_back(Json{{"stage", number},
                          {"chunks", Json(stage.chunks)},
                          {"in_flight", schedule.in_flight[number]},
                          {"busy_slots", timing.slots - timing.idle[number]},
                          {"idle_slots", timing.idle[number]},
                          {"actions", std::move(actions)}});
  }
  const std::int64_t idle =
      std::accumulate(timing.idle.begin(), timing.idle.end(), std::int64_t{0});
  const auto all =
      static_cast<double>(timing.slots) * static_cast<double>(schedule.schedule.stages.size());
  Json durations{{"forward", schedule.durations.forward},
                 {"backward_input", schedule.durations.backward_input},
                 {"backward_weight", schedule.durations.backward_weight}};
  return Text(Json{{"stepcast", 1},
                   {"schedule", schedule.name},
                   {"micro_batches", schedule.schedule.micro_batches},
                   {"durations", std::move(durations)},
                   {"slots", timing.slots},
                   {"bubble", all > 0 ? static_cast<double>(idle) / all : 0},
                   {"stages", std::move(stages)}});
}

}  // namespace stepcast::report
