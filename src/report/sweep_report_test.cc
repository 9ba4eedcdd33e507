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
      "                                                            needs\n"
      "bucket_size  status        step ms  tokens/s/GPU  peak GiB    GiB  left GiB\n" +
          std::string(80, '-') +
          "\n"
          "1 MiB        ok             12.500       1,234.5      2.00   4.00     76.00\n"
          "25 MiB       does_not_fit   12.000       1,300.0     90.00  92.50    -12.50\n"
          "0 B          illegal             -             -         -      -         -  [1]\n"
          "\n"
          "[1]  no \"0 B\" here, sorry; second\n"
          "\n"
          "peak: what is allocated; needs: what the allocator reserves for it and what is outside "
          "of it (context, NCCL), which decides whether it fits; left: what a device has beyond "
          "that\n"
          "\n"
          "3 combinations: 1 ok, 1 does not fit, 1 illegal\n"
          "shortest step: 12.5 ms with data_parallel.bucket_size=1 MiB\n");
}

TEST(SweepReportTest, WhatMayNotFitIsNoPlainOk) {
  std::vector<SweepRow> rows = Rows();
  rows[0].verdict = forecast::MemoryVerdict::kMayNotFit;
  const std::string text = SweepText(Grid(), rows);
  EXPECT_NE(text.find("1 MiB        may_not_fit    12.500"), std::string::npos) << text;
  EXPECT_NE(text.find("shortest step: 12.5 ms with"), std::string::npos) << text;
}

// Twice the micro-batches take less than twice the time: the longer step is the better one.
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
  // 20.48 ms for 8,192 tokens are 2,500 ns for one.
  EXPECT_NE(text.find("least time for a token: 2,500.0 ns (20.5 ms for 8,192 tokens) with "
                      "training.gradient_accumulation=2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tokens/step  step ms"), std::string::npos) << text;
  EXPECT_EQ(text.find("shortest step"), std::string::npos) << text;
  // A row that cannot exist trains nothing, and does not count.
  rows[1].status = RowStatus::kIllegal;
  EXPECT_NE(SweepText(grid, rows).find("shortest step: 12.5 ms"), std::string::npos);
}

// A node's memory, and not that of its devices, may be what does not suffice.
TEST(SweepReportTest, ARowSaysWhatIsTooSmall) {
  std::vector<SweepRow> rows = Rows();
  EXPECT_EQ(Reason(rows[1]), "needs 12.5 GiB more than the device has");
  rows[1].capacity = GiB(100);
  EXPECT_EQ(Reason(rows[1]), "needs 12.5 GiB more than a node's own memory or drives have");
  EXPECT_NE(SweepText(Grid(), rows).find("92.50      7.50  [1]\n"), std::string::npos)
      << SweepText(Grid(), rows);
}

// Equal last words are told by whole keys.
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
  EXPECT_EQ(SweepCsv(Grid(), Rows()),
            "data_parallel.bucket_size,status,reason,step_time_s,tokens_per_s_per_gpu,peak_bytes,"
            "fits,reserved_bytes,outside_bytes,capacity_bytes,free_bytes,tokens,verdict,"
            "fit_probability,gpus\r\n"
            "1 MiB,ok,,0.0125,1234.5,2147483648,true,3221225472,1073741824,85899345920,"
            "81604378624,4096,fits,0.95,16\r\n"
            "25 MiB,does_not_fit,needs 12.5 GiB more than the device has,0.012,1300,96636764160,"
            "false,98247376896,1073741824,85899345920,0,4096,does_not_fit,0.125,16\r\n"
            "0 B,illegal,\"no \"\"0 B\"\" here, sorry; second\",,,,,,,,,,,,\r\n");
}

TEST(SweepReportTest, JsonHasTheContractsKeysInOrder) {
  EXPECT_EQ(SweepJson(Grid(), Rows(), 0.5, 1), R"({
  "stepcast": 1,
  "rows": [
    {
      "set": {
        "data_parallel.bucket_size": "1 MiB"
      },
      "status": "ok",
      "reason": "",
      "step_time_s": 0.0125,
      "tokens_per_s_per_gpu": 1234.5,
      "peak_bytes": 2147483648,
      "reserved_bytes": 3221225472,
      "outside_bytes": 1073741824,
      "capacity_bytes": 85899345920,
      "fits": true,
      "verdict": "fits",
      "fit_probability": 0.95,
      "free_bytes": 81604378624,
      "tokens": 4096,
      "gpus": 16
    },
    {
      "set": {
        "data_parallel.bucket_size": "25 MiB"
      },
      "status": "does_not_fit",
      "reason": "needs 12.5 GiB more than the device has",
      "step_time_s": 0.012,
      "tokens_per_s_per_gpu": 1300.0,
      "peak_bytes": 96636764160,
      "reserved_bytes": 98247376896,
      "outside_bytes": 1073741824,
      "capacity_bytes": 85899345920,
      "fits": false,
      "verdict": "does_not_fit",
      "fit_probability": 0.125,
      "free_bytes": 0,
      "tokens": 4096,
      "gpus": 16
    },
    {
      "set": {
        "data_parallel.bucket_size": "0 B"
      },
      "status": "illegal",
      "reason": "no \"0 B\" here, sorry; second",
      "step_time_s": null,
      "tokens_per_s_per_gpu": null,
      "peak_bytes": null,
      "reserved_bytes": null,
      "outside_bytes": null,
      "capacity_bytes": null,
      "fits": null,
      "verdict": null,
      "fit_probability": null,
      "free_bytes": null,
      "tokens": null,
      "gpus": null
    }
  ],
  "training": null,
  "by_gpus": [
    {
      "gpus": 16,
      "row": 0
    }
  ],
  "run": {
    "simulated": 2,
    "from_store": 1,
    "seconds": 0.5
  }
}
)");
}

TEST(SweepReportTest, JsonLinesAreTheRows) {
  EXPECT_EQ(
      SweepJsonLines(Grid(), Rows()),
      R"({"set":{"data_parallel.bucket_size":"1 MiB"},"status":"ok","reason":"","step_time_s":0.0125,)"
      R"("tokens_per_s_per_gpu":1234.5,"peak_bytes":2147483648,"reserved_bytes":3221225472,)"
      R"("outside_bytes":1073741824,"capacity_bytes":85899345920,"fits":true,)"
      R"("verdict":"fits","fit_probability":0.95,)"
      R"("free_bytes":81604378624,"tokens":4096,"gpus":16})"
      "\n"
      R"({"set":{"data_parallel.bucket_size":"25 MiB"},"status":"does_not_fit",)"
      R"("reason":"needs 12.5 GiB more than the device has","step_time_s":0.012,)"
      R"("tokens_per_s_per_gpu":1300.0,"peak_bytes":96636764160,"reserved_bytes":98247376896,)"
      R"("outside_bytes":1073741824,"capacity_bytes":85899345920,"fits":false,)"
      R"("verdict":"does_not_fit","fit_probability":0.125,"free_bytes":0,)"
      R"("tokens":4096,"gpus":16})"
      "\n"
      R"({"set":{"data_parallel.bucket_size":"0 B"},"status":"illegal",)"
      R"("reason":"no \"0 B\" here, sorry; second","step_time_s":null,)"
      R"("tokens_per_s_per_gpu":null,"peak_bytes":null,"reserved_bytes":null,)"
      R"("outside_bytes":null,"capacity_bytes":null,"fits":null,)"
      R"("verdict":null,"fit_probability":null,"free_bytes":null,)"
      R"("tokens":null,"gpus":null})"
      "\n");
}

}  // namespace
}  // namespace stepcast::report
