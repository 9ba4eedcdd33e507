// All views of memory agree: the table's peak equals that of the chart and of the trace's counters,
// for every shipped scenario and for random plans of every framework.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "rapidcheck/gtest.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/memory/account.h"
#include "src/report/pages.h"
#include "src/report/step_figures.h"
#include "src/report/trace.h"
#include "src/scenario/load.h"
#include "tests/samples/samples.h"

namespace stepcast::report {
namespace {

Bytes PeakOfChart(const forecast::Run& run) {
  const forecast::ClassRun& own = run.fullest_class();
  const std::uint32_t step =
      memory::StepOfPeak(own.program, own.memory, run.first_step, run.first_step);
  const auto& ends = own.timeline.step_ends;
  constexpr std::size_t kInstants = 500;
  Bytes most;
  for (const MemoryInstant& instant :
       MemoryOver(own.program, own.timeline, own.memory, step, step == 0 ? Time() : ends[step - 1],
                  ends[step], kInstants)) {
    most = std::max(most, Total(instant.bytes));
  }
  return most;
}

// Counters are written in sets, in the order of categories. Unchanged counters are left out, so two
// sets may look like one. `sets`: the largest sum after a set that certainly ends, never above the
// peak. `events`: the largest sum after any counter, never below it.
struct TracePeak {
  Bytes sets, events;
  bool Is(Bytes peak) const { return sets <= peak && events >= peak; }
};
TracePeak PeakOfTrace(const forecast::Run& run) {
  std::string text;
  const auto written = WriteTrace(run, {"test", 0, 1},
                                  [&](std::string_view bytes) -> tl::expected<void, std::string> {
                                    text += bytes;
                                    return {};
                                  });
  EXPECT_TRUE(written.has_value());
  std::array<std::int64_t, program::kCategories> counters{};
  TracePeak most;
  const auto total = [&] {
    return Bytes(std::accumulate(counters.begin(), counters.end(), std::int64_t{0}));
  };
  std::size_t last = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with("{\"ph\": \"C\"")) continue;
    const auto event = nlohmann::json::parse(line.substr(0, line.rfind('}') + 1));
    const std::string name = event.at("name");
    std::size_t category = 0;
    while ("memory: " + std::string(kCategoryNames.at(category)) != name) ++category;
    if (category <= last) most.sets = std::max(most.sets, total());
    last = category;
    counters[category] = event.at("args").at("bytes");
    most.events = std::max(most.events, total());
  }
  most.sets = std::max(most.sets, total());
  return most;
}

void Check(const forecast::Run& run, const std::string& name) {
  const Bytes peak = run.forecast.memory.peak;
  const forecast::ClassRun& own = run.fullest_class();
  EXPECT_EQ(PeakOfChart(run), peak) << name;
  // The largest trace of a shipped scenario has 3 GB. It is ten times as large as the next one,
  // also a pipeline of the same framework.
  std::size_t operations = 0;
  for (const forecast::ClassRun& one : run.classes) operations += one.timeline.operations.size();
  if (operations <= Samples<std::size_t>(1'500'000, std::numeric_limits<std::size_t>::max())) {
    EXPECT_TRUE(PeakOfTrace(run).Is(peak)) << name;
  }
  EXPECT_EQ(Total(run.forecast.memory.at_peak), peak) << name;
  Bytes alive;
  for (const program::Index buffer : memory::BuffersAtPeak(own.program, own.memory)) {
    alive += own.program.buffers[buffer].size;
  }
  EXPECT_EQ(alive, peak) << name;
}

TEST(MemoryViewsTest, ShippedScenariosHaveOnePeak) {
  scenario::InputCache cache;
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::filesystem::path file = entry.path() / "scenario.yaml";
    if (!std::filesystem::exists(file)) continue;
    const auto scenario = scenario::Load(file.string(), {}, cache);
    ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
    const auto run = forecast::Simulate(*scenario);
    ASSERT_TRUE(run.has_value()) << file;
    Check(*run, file.string());
    ++scenarios;
  }
  EXPECT_GT(scenarios, 5);
}

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

TEST(MemoryViewsTest, RandomPlansHaveOnePeak) {
  scenario::InputCache cache;
  rc::detail::checkGTest([&] {
    const std::string plan = *rc::gen::elementOf(std::vector<std::string>{
        "{zero_stage: 0, framework: ddp}", "{zero_stage: 2, framework: reference}",
        "{zero_stage: 3, framework: reference}", "{zero_stage: 3, framework: fsdp2}",
        "{zero_stage: 3, framework: fsdp1}", "{zero_stage: 2, framework: deepspeed}",
        "{zero_stage: 3, framework: deepspeed}", "{zero_stage: 1, framework: megatron}"});
    const auto one_of = [](std::vector<const char*> values) {
      return std::string(*rc::gen::elementOf(values));
    };
    const auto scenario =
        scenario::LoadText(kScenario, "test",
                           {"data_parallel=" + plan, "cluster.nodes=" + one_of({"1", "3"}),
                            "training.micro_batch_size=" + one_of({"1", "4", "40", "160"}),
                            "training.gradient_accumulation=" + one_of({"1", "3"}),
                            "training.activation_checkpointing=" + one_of({"none", "full"}),
                            "training.step_barrier=" + one_of({"false", "true"})},
                           cache);
    if (!scenario) RC_FAIL(Format(scenario.error()));
    const auto run = forecast::Simulate(*scenario);
    RC_ASSERT(run.has_value());
    const Bytes peak = run->forecast.memory.peak;
    RC_ASSERT(PeakOfChart(*run) == peak);
    RC_ASSERT(PeakOfTrace(*run).Is(peak));
  });
}

}  // namespace
}  // namespace stepcast::report
