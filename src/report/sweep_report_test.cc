#include "src/report/sweep_report.h"

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
  rows[0].tokens_per_second_per_gpu = 1234.5;
  rows[0].peak = GiB(2);
  rows[1].status = RowStatus::kDoesNotFit;
  rows[1].step_time = Microseconds(12'000);
  rows[1].tokens_per_second_per_gpu = 1300;
  rows[1].peak = GiB(90);
  rows[1].over = MiB(12'800);
  rows[2].status = RowStatus::kIllegal;
  rows[2].faults = {{"a", {}, "no \"0 B\" here, sorry", ""}, {"b", {}, "second", ""}};
  return rows;
}

TEST(SweepReportTest, TheTableNamesTheShortestStepThatFits) {
  EXPECT_EQ(SweepText(Grid(), Rows()),
            std::string("data_parallel.bucket_size  status        step ms  tokens/s/GPU  peak GiB  "
                        "reason\n") +
                std::string(113, '-') +
                "\n"
                "1 MiB                      ok             12.500       1,234.5      2.00\n"
                "25 MiB                     does_not_fit   12.000       1,300.0     90.00  "
                "needs 12.5 GiB more than the device has\n"
                "0 B                        illegal             -             -         -  "
                "no \"0 B\" here, sorry; second\n"
                "\n"
                "3 combinations: 1 ok, 1 does not fit, 1 illegal\n"
                "shortest step: 12.5 ms with data_parallel.bucket_size=1 MiB\n");
}

TEST(SweepReportTest, CsvLeavesTheFiguresOfIllegalRowsEmpty) {
  EXPECT_EQ(SweepCsv(Grid(), Rows()),
            "data_parallel.bucket_size,status,reason,step_time_s,tokens_per_s_per_gpu,peak_bytes,"
            "fits\r\n"
            "1 MiB,ok,,0.0125,1234.5,2147483648,true\r\n"
            "25 MiB,does_not_fit,needs 12.5 GiB more than the device has,0.012,1300,96636764160,"
            "false\r\n"
            "0 B,illegal,\"no \"\"0 B\"\" here, sorry; second\",,,,\r\n");
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
      "fits": true
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
      "fits": false
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
      "fits": null
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
      R"("tokens_per_s_per_gpu":1234.5,"peak_bytes":2147483648,"fits":true})"
      "\n"
      R"({"set":{"data_parallel.bucket_size":"25 MiB"},"status":"does_not_fit",)"
      R"("reason":"needs 12.5 GiB more than the device has","step_time_s":0.012,)"
      R"("tokens_per_s_per_gpu":1300.0,"peak_bytes":96636764160,"fits":false})"
      "\n"
      R"({"set":{"data_parallel.bucket_size":"0 B"},"status":"illegal",)"
      R"("reason":"no \"0 B\" here, sorry; second","step_time_s":null,)"
      R"("tokens_per_s_per_gpu":null,"peak_bytes":null,"fits":null})"
      "\n");
}

}  // namespace
}  // namespace stepcast::report
