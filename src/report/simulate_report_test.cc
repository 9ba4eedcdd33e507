#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

using stepcast::Milliseconds;

scenario::Scenario Scenario() {
  scenario::Scenario scenario;
  scenario.name = "toy";
  model::LayerList list;
  list.layers.push_back({.name = "block",
                         .repeat = 2,
                         .parameters = {500'000, 500},
                         .forward = Milliseconds(1),
                         .backward = Milliseconds(2),
                         .activation = Bytes()});
  scenario.model = std::make_shared<model::Model>(model::Build("two blocks", list));
  scenario.cluster = std::make_shared<topology::Cluster>(topology::FlatCluster{
      4, GiB(80), "", topology::LinkSpec{Microseconds(5), Bandwidth::GigabytesPerSecond(25)}});
  plan::Plan& plan = scenario.plan;
  plan.training.sequence_length = 1024;
  plan.training.micro_batch_size = 2;
  plan.training.gradient_accumulation = 3;
  plan.training.global_batch_size = 24;
  plan.parallelism.data = 4;
  plan.data_parallel.bucket_size = MiB(25);
  plan.data_parallel.shard_group_size = 4;
  scenario.resolved.value =
      scenario::Resolved::Mapping{{"stepcast", {std::int64_t{1}}}, {"name", {std::string("toy")}}};
  scenario.warnings = {"a key without effect"};
  return scenario;
}

forecast::Forecast Forecast() {
  forecast::Forecast forecast;
  forecast.step_time = Milliseconds(20);
  forecast.step_time_range = {Milliseconds(15), Milliseconds(25)};
  forecast.tokens_per_second = 1228800;
  forecast.tokens_per_second_per_gpu = 307200;
  forecast.time.phase = {Milliseconds(6), Milliseconds(8), Milliseconds(1)};
  forecast.time.exposed_communication = Milliseconds(4);
  forecast.time.idle = Milliseconds(1);
  forecast.communication_total = Milliseconds(9);
  forecast.collectives = {{CollectiveKind::kAllReduce, "data", 2, 3145728.0, "ring", "LL128", 24,
                           cost::Provenance::kModelled, Milliseconds(9)},
                          {CollectiveKind::kAllGather, "data", 1, 0.5, "table", "", 0,
                           cost::Provenance::kExtrapolated, Microseconds(10)}};
  forecast.memory.rank = 1;
  forecast.memory.at_peak = {GiB(2), GiB(2), GiB(12), GiB(1), MiB(512), Bytes(0)};
  forecast.memory.peak = MiB(17920);
  forecast.memory.reserved = GiB(18);
  forecast.memory.outside = GiB(1);
  forecast.memory.capacity = GiB(80);
  forecast.memory.padding = Bytes(2048);
  return forecast;
}

TEST(SimulateReportTest, ThePageSaysWhatWasForecastAndWhereTimeAndMemoryGo) {
  EXPECT_EQ(SimulateText(Scenario(), Forecast()),
            "toy\n"
            "\n"
            "model      two blocks, 1,001,000 parameters\n"
            "cluster    4 x device behind one switch\n"
            "plan       reference, ZeRO stage 0, 4 data-parallel ranks, buckets of 25 MiB\n"
            "batch      24 x 1,024 tokens: micro-batch 2 x accumulation 3 x 4 ranks\n"
            "precision  bf16; parameters bf16, gradients bf16, reduced in bf16; adamw (fused)\n"
            "software   torch 2.14, NCCL 2.30\n"
            "\n"
            "step time  20 ms (90 % range: 15 ms to 25 ms)\n"
            "throughput 1,228,800 tokens/s, 307,200.0 tokens/s per GPU\n"
            "\n"
            "where the time goes        ms      %\n"
            "------------------------------------\n"
            "forward                 6.000   30.0\n"
            "backward                8.000   40.0\n"
            "optimizer               1.000    5.0\n"
            "exposed communication   4.000   20.0\n"
            "idle                    1.000    5.0\n"
            "------------------------------------\n"
            "step                   20.000  100.0\n"
            "\n"
            "                           sent\n"
            "                           MiB/\n"
            "collective  group  calls   rank  total ms  algorithm   channels  cost is\n"
            "-----------------------------------------------------------------------------\n"
            "all_reduce  data       2   3.00     9.000  ring LL128        24  modelled\n"
            "all_gather  data       1  <0.01     0.010  table              -  extrapolated\n"
            "communication is in flight for 9.000 ms of the step, exposed for 4.000 ms\n"
            "\n"
            "memory of rank 1             GiB\n"
            "--------------------------------\n"
            "parameters                  2.00\n"
            "gradients                   2.00\n"
            "optimizer                  12.00\n"
            "activations                 1.00\n"
            "communication               0.50\n"
            "workspace                   0.00\n"
            "--------------------------------\n"
            "peak allocated             17.50\n"
            "reserved by the allocator  18.00\n"
            "outside the allocator       1.00\n"
            "capacity                   80.00\n"
            "headroom                   61.00\n"
            "2 KiB of the peak is padding, because all shards have the same length\n"
            "\n"
            "fits: 61 GiB of 80 GiB remain free\n");
}

TEST(SimulateReportTest, WhatFitsOnlyWithoutTheCacheSaysSo) {
  forecast::Forecast forecast = Forecast();
  EXPECT_EQ(MemorySentence(forecast.memory), "fits: 61 GiB of 80 GiB remain free");
  forecast.memory.allocator_flushes = 2;
  EXPECT_EQ(MemorySentence(forecast.memory),
            "may not fit: 61 GiB of 80 GiB remain free after the allocator returned cached memory "
            "to the device; the probability that the step fits is 100 %");
  forecast.memory.allocator_flushes = 0;
  forecast.memory.error = GiB(2);
  forecast.memory.fit_probability = 0.75;
  EXPECT_EQ(MemorySentence(forecast.memory),
            "fits: 61 GiB of 80 GiB remain free, probability 75 %");
  forecast.memory.fit_probability = 0.749;
  EXPECT_EQ(
      MemorySentence(forecast.memory),
      "may not fit: 61 GiB of 80 GiB remain free; the probability that the step fits is 75 %");
}

TEST(SimulateReportTest, SoftwareThatTheScenarioLeavesOutIsSaidToBeAssumed) {
  scenario::Scenario scenario = Scenario();
  scenario.torch_assumed = scenario.nccl_assumed = true;
  EXPECT_THAT(SimulateText(scenario, Forecast()),
              testing::HasSubstr("software   torch 2.14, NCCL 2.30 (assumed)\n"));
  scenario.torch_assumed = false;
  scenario.plan.software.torch = {2, 6};
  EXPECT_THAT(SimulateText(scenario, Forecast()),
              testing::HasSubstr("software   torch 2.6, NCCL 2.30 (NCCL is assumed)\n"));
  EXPECT_THAT(SimulateJson(scenario, Forecast(), 0),
              testing::HasSubstr("\"assumed\": [\n      \"nccl\"\n    ]"));
}

TEST(SimulateReportTest, ThePlanNamesWhatDistinguishesIt) {
  scenario::Scenario scenario = Scenario();
  const auto plan_line = [&] {
    const std::string text = SimulateText(scenario, Forecast());
    const std::size_t begin = text.find("plan ");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  scenario.plan.data_parallel.bucket_size = Bytes(0);
  scenario.plan.data_parallel.overlap = false;
  EXPECT_EQ(plan_line(),
            "plan       reference, ZeRO stage 0, 4 data-parallel ranks, one bucket per tensor, "
            "no overlap");
  scenario.plan.data_parallel = {};
  scenario.plan.data_parallel.framework = plan::Framework::kFsdp2;
  scenario.plan.data_parallel.zero_stage = 3;
  scenario.plan.data_parallel.prefetch = 2;
  scenario.plan.data_parallel.shard_group_size = 2;
  scenario.plan.data_parallel.reshard_after_forward = std::int64_t{2};
  EXPECT_EQ(plan_line(),
            "plan       fsdp2, ZeRO stage 3, 4 data-parallel ranks sharded over 2, prefetch 2, "
            "reshard to 2 ranks after forward");
}

TEST(SimulateReportTest, UtilizationIsShownWhereItHasAMeaning) {
  forecast::Forecast forecast = Forecast();
  EXPECT_THAT(SimulateText(Scenario(), forecast), testing::Not(testing::HasSubstr("MFU")));
  forecast.has_flops = true;
  forecast.mfu = 0.4125;
  forecast.hfu = 0.5;
  EXPECT_THAT(SimulateText(Scenario(), forecast),
              testing::HasSubstr("MFU        41.2 %\nHFU        50.0 %\n"));
}

TEST(SimulateReportTest, TheVerdictSaysByHowMuchItDoesNotFit) {
  forecast::MemoryForecast memory;
  memory.reserved = GiB(90);
  memory.outside = MiB(512);
  memory.capacity = GiB(80);
  memory.fits = false;
  EXPECT_EQ(MemorySentence(memory),
            "does not fit: 10.5 GiB more than the device's memory of 80 GiB");
}

TEST(SimulateReportTest, JsonHasTheContractsKeysInOrder) {
  EXPECT_EQ(SimulateJson(Scenario(), Forecast(), 0.25), R"({
  "stepcast": 1,
  "scenario": "toy",
  "step_time_s": 0.02,
  "step_time_range_s": [
    0.015,
    0.025
  ],
  "tokens_per_s": 1228800.0,
  "tokens_per_s_per_gpu": 307200.0,
  "mfu": null,
  "hfu": null,
  "parameters": 1001000,
  "time_s": {
    "forward": 0.006,
    "backward": 0.008,
    "optimizer": 0.001,
    "exposed_communication": 0.004,
    "idle": 0.001
  },
  "communication": {
    "bytes_per_rank": 3145728.5,
    "total_s": 0.009,
    "exposed_s": 0.004,
    "collectives": [
      {
        "collective": "all_reduce",
        "group": "data",
        "calls": 2,
        "bytes_per_rank": 3145728,
        "algorithm": "ring",
        "protocol": "LL128",
        "channels": 24,
        "total_s": 0.009,
        "provenance": "modelled"
      },
      {
        "collective": "all_gather",
        "group": "data",
        "calls": 1,
        "bytes_per_rank": 0.5,
        "algorithm": "table",
        "protocol": null,
        "channels": null,
        "total_s": 1e-05,
        "provenance": "extrapolated"
      }
    ]
  },
  "memory": {
    "rank": 1,
    "peak_bytes": 18790481920,
    "reserved_bytes": 19327352832,
    "outside_bytes": 1073741824,
    "capacity_bytes": 85899345920,
    "fits": true,
    "verdict": "fits",
    "fit_probability": 1.0,
    "parameters_bytes": 2147483648,
    "gradients_bytes": 2147483648,
    "optimizer_bytes": 12884901888,
    "activations_bytes": 1073741824,
    "communication_bytes": 536870912,
    "workspace_bytes": 0,
    "padding_bytes": 2048,
    "peak_range_bytes": null,
    "error_bytes": 0,
    "allocator_flushes": 0
  },
  "classes": [],
  "software": {
    "torch": "2.14",
    "nccl": "2.30",
    "assumed": []
  },
  "resolved": {
    "stepcast": 1,
    "name": "toy"
  },
  "warnings": [
    "a key without effect"
  ],
  "would_fit": [],
  "run": {
    "seconds": 0.25
  }
}
)");
}

TEST(SimulateReportTest, JsonOfAnArchitectureHasUtilization) {
  forecast::Forecast forecast = Forecast();
  forecast.has_flops = true;
  forecast.mfu = 0.4125;
  forecast.hfu = 0.5;
  EXPECT_THAT(SimulateJson(Scenario(), forecast, 0),
              testing::HasSubstr("\"mfu\": 0.4125,\n  \"hfu\": 0.5,\n"));
}

}  // namespace
}  // namespace stepcast::report
