#include "src/report/sweep_report.h"

#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

using planner::RowStatus;
using planner::SweepGrid;
using planner::SweepRow;

SweepGrid Grid() {
  return SweepGrid::Of({{"data_parallel.bucket_size", {"1 MiB", "25 MiB", "0 B"}}}).value();
}

std::vector<SweepRow> Rows() {
  std::vector<SweepRow> rows(3);
  rows[0].status = RowStatus::kOk;
  rows[0].step_time = Microseconds(12'500);
  rows[0].tokens = 4096;
  rows[0].gpus = 16;
  rows[0].tokens_per_second_per_gpu = 1234.5;
  rows[0].peak = GiB(2);
  rows[0].reserved = GiB(3);
  rows[0].outside = GiB(1);
  rows[0].capacity = GiB(80);
  rows[1].status = RowStatus::kDoesNotFit;
  rows[1].step_time = Microseconds(12'000);
  rows[1].tokens = 4096;
  rows[1].gpus = 16;
  rows[1].tokens_per_second_per_gpu = 1300;
  rows[1].peak = GiB(90);
  rows[1].reserved = MiB(93'696);  // 91.5 GiB
  rows[1].outside = GiB(1);
  rows[1].capacity = GiB(80);
  rows[1].over = MiB(12'800);
  rows[0].verdict = forecast::MemoryVerdict::kFits;
  rows[0].fit_probability = 0.95;
  rows[1].fit_probability = 0.125;
  rows[2].status = RowStatus::kIllegal;
  rows[2].faults = {{"a", {}, "no \"0 B\" here, sorry", ""}, {"b", {}, "second", ""}};
  return rows;
}

TEST(SweepReportTest, TheTableNamesTheShortestStepThatFits) {
  EXPECT_EQ(
      SweepText(Grid(), Rows()),
      "bucket_                         tokens/  sent    left   peak  needs\n"
      "size     status        step ms    s/GPU     B     GiB    GiB    GiB  batch\n"
      "-------------------------------------------------------------------------------\n"
      "1 MiB    ok             12.500  1,234.5     0   76.00   2.00   4.00      0\n"
      "25 MiB   does_not_fit   12.000  1,300.0     0  -12.50  90.00  92.50      0\n"
      "0 B      illegal             -        -     -       -      -      -      -  [1]\n"
      "columns not shown: accumulated (--columns shows all)\n"
      "\n"
      "[1]  no \"0 B\" here, sorry; second\n"
      "\n"
      "exposed: communication that does not overlap computation; sent: bytes that a rank sends "
      "per step; left: free memory of a device, after reserved memory and memory outside of the "
      "allocator (context, NCCL); peak: allocated memory; accumulated: micro-batches per rank\n"
      "\n"
      "3 combinations: 1 ok, 1 does not fit, 1 illegal\n"
      "shortest step: 12.5 ms with data_parallel.bucket_size=1 MiB\n");
}

TEST(SweepReportTest, WhatMayNotFitIsNoPlainOk) {
  std::vector<SweepRow> rows = Rows();
  rows[0].verdict = forecast::MemoryVerdict::kMayNotFit;
  const std::string text = SweepText(Grid(), rows);
  EXPECT_NE(text.find("may_not_fit    12.500"), std::string::npos) << text;
  EXPECT_NE(text.find("shortest step: 12.5 ms with"), std::string::npos) << text;
}

// Twice the micro-batches take less than twice the time, so the longer step is better.
TEST(SweepReportTest, StepsOfUnequalTokensAreComparedByTheTimeForOne) {
  const SweepGrid grid = SweepGrid::Of({{"training.gradient_accumulation", {"1", "2"}}}).value();
  std::vector<SweepRow> rows = Rows();
  rows.pop_back();
  rows[1] = rows[0];
  rows[1].step_time = Microseconds(20'480);
  rows[1].tokens = 8192;
  rows[1].tokens_per_second_per_gpu = 1500;
  EXPECT_EQ(Fastest(rows), 1);
  const std::string text = SweepText(grid, rows);
  // 20.48 ms for 8,192 tokens are 2,500 ns per token.
  EXPECT_NE(text.find("least time per token: 2,500.0 ns (20.5 ms for 8,192 tokens) with "
                      "training.gradient_accumulation=2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tokens/step  step ms"), std::string::npos) << text;
  EXPECT_EQ(text.find("shortest step"), std::string::npos) << text;
  // An illegal row trains nothing and does not count.
  rows[1].status = RowStatus::kIllegal;
  EXPECT_NE(SweepText(grid, rows).find("shortest step: 12.5 ms"), std::string::npos);
}

// A node's memory may be too small although its devices' memory suffices.
TEST(SweepReportTest, ARowSaysWhatIsTooSmall) {
  std::vector<SweepRow> rows = Rows();
  EXPECT_EQ(Reason(rows[1]), "needs 12.5 GiB more memory than the device has");
  rows[1].capacity = GiB(100);
  EXPECT_EQ(Reason(rows[1]), "needs 12.5 GiB more host memory or drive space than the node has");
  EXPECT_NE(SweepText(Grid(), rows).find("  7.50  90.00  92.50      0  [1]\n"), std::string::npos)
      << SweepText(Grid(), rows);
}

// If the last parts of keys are equal, whole keys are shown.
TEST(SweepReportTest, NoLineOfTheTableIsTooWide) {
  const std::string twenty = "a_key_of_twenty_word";
  const SweepGrid grid = SweepGrid::Of({{"data_parallel.deepspeed." + twenty, {"1", "2"}},
                                        {"training." + twenty, {"true"}},
                                        {"data_parallel.bucket_size", {"1 MiB"}}})
                             .value();
  std::vector<SweepRow> rows = Rows();
  rows.erase(rows.begin() + 1);
  const std::string text = SweepText(grid, rows);
  EXPECT_NE(text.find("training."), std::string::npos) << text;
  std::istringstream lines(text.substr(0, text.find("\n\n")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(SweepReportTest, CsvLeavesTheFiguresOfIllegalRowsEmpty) {
  EXPECT_EQ(
      SweepCsv(Grid(), Rows()),
      "data_parallel.bucket_size,status,reason,step_time_s,tokens_per_s_per_gpu,peak_bytes,"
      "fits,reserved_bytes,outside_bytes,capacity_bytes,free_bytes,tokens,verdict,fit_proba"
      "bility,gpus,global_batch_size,gradient_accumulation,mfu,wire_bytes_per_rank,exposed_"
      "communication_s\r\n"
      "1 MiB,ok,,0.0125,1234.5,2147483648,true,3221225472,1073741824,85899345920,8160437862"
      "4,4096,fits,0.95,16,0,0,,0,\r\n"
      "25 MiB,does_not_fit,needs 12.5 GiB more memory than the device has,0.012,1300,96636764160,f"
      "alse,98247376896,1073741824,85899345920,0,4096,does_not_fit,0.125,16,0,0,,0,\r\n"
      "0 B,illegal,\"no \"\"0 B\"\" here, sorry; second\",,,,,,,,,,,,,,,,,\r\n");
}

TEST(SweepReportTest, JsonHasTheContractsKeysInOrder) {
  EXPECT_EQ(SweepJson(Grid(), Rows(), 0.5, 1),
            "{\n"
            "  \"stepcast\": 1,\n"
            "  \"rows\": [\n"
            "    {\n"
            "      \"set\": {\n"
            "        \"data_parallel.bucket_size\": \"1 MiB\"\n"
            "      },\n"
            "      \"status\": \"ok\",\n"
            "      \"reason\": \"\",\n"
            "      \"step_time_s\": 0.0125,\n"
            "      \"tokens_per_s_per_gpu\": 1234.5,\n"
            "      \"peak_bytes\": 2147483648,\n"
            "      \"fits\": true,\n"
            "      \"reserved_bytes\": 3221225472,\n"
            "      \"outside_bytes\": 1073741824,\n"
            "      \"capacity_bytes\": 85899345920,\n"
            "      \"free_bytes\": 81604378624,\n"
            "      \"tokens\": 4096,\n"
            "      \"verdict\": \"fits\",\n"
            "      \"fit_probability\": 0.95,\n"
            "      \"gpus\": 16,\n"
            "      \"global_batch_size\": 0,\n"
            "      \"gradient_accumulation\": 0,\n"
            "      \"mfu\": null,\n"
            "      \"wire_bytes_per_rank\": 0.0,\n"
            "      \"exposed_communication_s\": null\n"
            "    },\n"
            "    {\n"
            "      \"set\": {\n"
            "        \"data_parallel.bucket_size\": \"25 MiB\"\n"
            "      },\n"
            "      \"status\": \"does_not_fit\",\n"
            "      \"reason\": \"needs 12.5 GiB more memory than the device has\",\n"
            "      \"step_time_s\": 0.012,\n"
            "      \"tokens_per_s_per_gpu\": 1300.0,\n"
            "      \"peak_bytes\": 96636764160,\n"
            "      \"fits\": false,\n"
            "      \"reserved_bytes\": 98247376896,\n"
            "      \"outside_bytes\": 1073741824,\n"
            "      \"capacity_bytes\": 85899345920,\n"
            "      \"free_bytes\": 0,\n"
            "      \"tokens\": 4096,\n"
            "      \"verdict\": \"does_not_fit\",\n"
            "      \"fit_probability\": 0.125,\n"
            "      \"gpus\": 16,\n"
            "      \"global_batch_size\": 0,\n"
            "      \"gradient_accumulation\": 0,\n"
            "      \"mfu\": null,\n"
            "      \"wire_bytes_per_rank\": 0.0,\n"
            "      \"exposed_communication_s\": null\n"
            "    },\n"
            "    {\n"
            "      \"set\": {\n"
            "        \"data_parallel.bucket_size\": \"0 B\"\n"
            "      },\n"
            "      \"status\": \"illegal\",\n"
            "      \"reason\": \"no \\\"0 B\\\" here, sorry; second\",\n"
            "      \"step_time_s\": null,\n"
            "      \"tokens_per_s_per_gpu\": null,\n"
            "      \"peak_bytes\": null,\n"
            "      \"fits\": null,\n"
            "      \"reserved_bytes\": null,\n"
            "      \"outside_bytes\": null,\n"
            "      \"capacity_bytes\": null,\n"
            "      \"free_bytes\": null,\n"
            "      \"tokens\": null,\n"
            "      \"verdict\": null,\n"
            "      \"fit_probability\": null,\n"
            "      \"gpus\": null,\n"
            "      \"global_batch_size\": null,\n"
            "      \"gradient_accumulation\": null,\n"
            "      \"mfu\": null,\n"
            "      \"wire_bytes_per_rank\": null,\n"
            "      \"exposed_communication_s\": null\n"
            "    }\n"
            "  ],\n"
            "  \"training\": null,\n"
            "  \"by_gpus\": [\n"
            "    {\n"
            "      \"gpus\": 16,\n"
            "      \"row\": 0\n"
            "    }\n"
            "  ],\n"
            "  \"run\": {\n"
            "    \"simulated\": 2,\n"
            "    \"from_store\": 1,\n"
            "    \"seconds\": 0.5\n"
            "  }\n"
            "}\n");
}

TEST(SweepReportTest, JsonLinesAreTheRows) {
  EXPECT_EQ(
      SweepJsonLines(Grid(), Rows()),
      "{\"set\":{\"data_parallel.bucket_size\":\"1 "
      "MiB\"},\"status\":\"ok\",\"reason\":\"\",\"step_time_s\""
      ":0.0125,\"tokens_per_s_per_gpu\":1234.5,\"peak_bytes\":2147483648,\"fits\":true,\"reserved_"
      "bytes\":3221225472,\"outside_bytes\":1073741824,\"capacity_bytes\":85899345920,\"free_byte"
      "s\":81604378624,\"tokens\":4096,\"verdict\":\"fits\",\"fit_probability\":0.95,\"gpus\":16,"
      "\"glob"
      "al_batch_size\":0,\"gradient_accumulation\":0,\"mfu\":null,\"wire_bytes_per_rank\":0.0,\"exp"
      "osed_communication_s\":null}\n"
      "{\"set\":{\"data_parallel.bucket_size\":\"25 "
      "MiB\"},\"status\":\"does_not_fit\",\"reason\":\"need"
      "s 12.5 GiB more memory than the device "
      "has\",\"step_time_s\":0.012,\"tokens_per_s_per_gpu\":1300"
      ".0,\"peak_bytes\":96636764160,\"fits\":false,\"reserved_bytes\":98247376896,\"outside_bytes"
      "\":1073741824,\"capacity_bytes\":85899345920,\"free_bytes\":0,\"tokens\":4096,\"verdict\":"
      "\"do"
      "es_not_fit\",\"fit_probability\":0.125,\"gpus\":16,\"global_batch_size\":0,\"gradient_accumu"
      "lation\":0,\"mfu\":null,\"wire_bytes_per_rank\":0.0,\"exposed_communication_s\":null}\n"
      "{\"set\":{\"data_parallel.bucket_size\":\"0 B\"},\"status\":\"illegal\",\"reason\":\"no "
      "\\\"0 B\\\" h"
      "ere, sorry; second\",\"step_time_s\":null,\"tokens_per_s_per_gpu\":null,\"peak_bytes\":null"
      ",\"fits\":null,\"reserved_bytes\":null,\"outside_bytes\":null,\"capacity_bytes\":null,"
      "\"free_"
      "bytes\":null,\"tokens\":null,\"verdict\":null,\"fit_probability\":null,\"gpus\":null,"
      "\"global_"
      "batch_size\":null,\"gradient_accumulation\":null,\"mfu\":null,\"wire_bytes_per_rank\":null,"
      "\"exposed_communication_s\":null}\n");
}

}  // namespace
}  // namespace stepcast::report
