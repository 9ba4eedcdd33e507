#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

scenario::Scenario Scenario() {
  scenario::Scenario scenario;
  scenario.name = "toy";
  model::LayerList list;
  list.layers.push_back({.name = "block",
                         .repeat = 1,
                         .parameters = {1000},
                         .forward = stepcast::Milliseconds(1),
                         .backward = stepcast::Milliseconds(2),
                         .activation = Bytes()});
  scenario.model = std::make_shared<model::Model>(model::Build("one block", list));
  scenario.cluster = std::make_shared<topology::Cluster>(topology::FlatCluster{
      2, GiB(16), "", topology::LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)}});
  scenario.plan.parallelism.data = 2;
  scenario.plan.data_parallel.framework = plan::Framework::kDdp;
  scenario.resolved.value = scenario::Resolved::Mapping{};
  return scenario;
}

MemoryReport Report() {
  MemoryReport report;
  report.own_stage = 0;
  StageMemory zero;
  zero.formula = {GiB(2), GiB(2), GiB(12), GiB(1), Bytes(0), Bytes(0)};
  zero.simulated.emplace();
  zero.simulated->at_peak = {GiB(2), GiB(1), GiB(12), GiB(1), GiB(1), MiB(512)};
  zero.simulated->peak = MiB(17920);
  zero.simulated->reserved = GiB(18);
  zero.simulated->outside = GiB(1);
  zero.simulated->capacity = GiB(16);
  zero.simulated->fits = false;
  StageMemory one;
  one.stage = 1;
  one.formula = {GiB(2), GiB(2), GiB(6), GiB(1), Bytes(0), Bytes(0)};
  one.reason = "ddp has no ZeRO stage 1";
  report.stages = {zero, one};
  return report;
}

TEST(MemoryReportTest, EachStageHasFormulaAndSimulationSideBySide) {
  EXPECT_THAT(MemoryText(Scenario(), Report()),
              testing::EndsWith("\n"
                                "ZeRO stage 0 (this scenario)  formula GiB  simulated GiB\n"
                                "--------------------------------------------------------\n"
                                "parameters                           2.00           2.00\n"
                                "gradients                            2.00           1.00\n"
                                "optimizer                           12.00          12.00\n"
                                "activations                          1.00           1.00\n"
                                "communication                        0.00           1.00\n"
                                "workspace                            0.00           0.50\n"
                                "--------------------------------------------------------\n"
                                "peak allocated                      17.00          17.50\n"
                                "reserved by the allocator                          18.00\n"
                                "outside the allocator                               1.00\n"
                                "does not fit: 3 GiB more than the device's memory of 16 GiB\n"
                                "\n"
                                "ZeRO stage 1    formula GiB  simulated GiB\n"
                                "------------------------------------------\n"
                                "parameters             2.00              -\n"
                                "gradients              2.00              -\n"
                                "optimizer              6.00              -\n"
                                "activations            1.00              -\n"
                                "communication          0.00              -\n"
                                "workspace              0.00              -\n"
                                "------------------------------------------\n"
                                "peak allocated        11.00              -\n"
                                "not simulated: ddp has no ZeRO stage 1\n"));
}

TEST(MemoryReportTest, JsonHasTheContractsKeysAndAReasonWithoutSimulation) {
  const auto document = nlohmann::ordered_json::parse(MemoryJson(Scenario(), Report(), 0.5));
  EXPECT_EQ(document.at("stepcast"), 1);
  EXPECT_EQ(document.at("stages").size(), 2U);
  EXPECT_EQ(
      document.at("stages").at(0).dump(),
      R"({"stage":0,"formula":{"parameters_bytes":2147483648,"gradients_bytes":2147483648,)"
      R"("optimizer_bytes":12884901888,"activations_bytes":1073741824,)"
      R"("communication_bytes":0,"workspace_bytes":0,"total_bytes":18253611008},)"
      R"("simulated":{"parameters_bytes":2147483648,"gradients_bytes":1073741824,)"
      R"("optimizer_bytes":12884901888,"activations_bytes":1073741824,)"
      R"("communication_bytes":1073741824,"workspace_bytes":536870912,)"
      R"("peak_bytes":18790481920,"padding_bytes":0,"reserved_bytes":19327352832,)"
      R"("outside_bytes":1073741824,"fits":false,"verdict":"does_not_fit","fit_probability":1.0}})");
  EXPECT_TRUE(document.at("stages").at(1).at("simulated").is_null());
  EXPECT_EQ(document.at("stages").at(1).at("reason"), "ddp has no ZeRO stage 1");
  EXPECT_EQ(document.back().dump(), R"({"seconds":0.5})");
}

TEST(MemoryReportTest, APageHasBarsAndTheCapacity) {
  const std::string page = MemoryPage(Scenario(), Report());
  EXPECT_THAT(page, testing::HasSubstr("<p class=\"verdict bad\">The step does not fit: 3 GiB more "
                                       "than the device's memory of 16 GiB.</p>"));
  EXPECT_THAT(page, testing::HasSubstr(
                        R"("bar":["stage 0, formula","stage 0, simulated","stage 1, formula"])"));
  EXPECT_THAT(page, testing::HasSubstr("capacity 16 GiB"));
  EXPECT_THAT(page, testing::HasSubstr("ddp has no ZeRO stage 1"));
}

}  // namespace
}  // namespace stepcast::report
