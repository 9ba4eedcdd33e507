#include <string>

#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/formats/measured_memory.h"
#include "src/program/program.h"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

forecast::MemoryForecast Forecast() {
  forecast::MemoryForecast memory;
  const auto set = [&](program::Category category, Bytes bytes) {
    memory.at_peak[static_cast<std::size_t>(category)] = bytes;
  };
  set(program::Category::kParameter, GiB(2));
  set(program::Category::kOptimizer, GiB(8));
  set(program::Category::kActivation, GiB(9));
  set(program::Category::kWorkspace, GiB(1));
  memory.peak = GiB(20);
  memory.reserved = GiB(22);
  return memory;
}

// A forecast of 10 for activations and workspace, and a measurement of 8: 25 % more.
TEST(MeasuredMemoryReport, PutsCategoriesTogetherThatAreNotToldApart) {
  const formats::MeasuredMemory measured{.form = "timeline",
                                         .allocated = GiB(18),
                                         .reserved = {},
                                         .at_peak = {{GiB(2), Bytes(), GiB(8), GiB(8)}},
                                         .notes = {}};
  const forecast::MemoryForecast memory = Forecast();
  EXPECT_EQ(MeasuredMemoryText({"mine", "t.json", &measured, &memory}),
            "mine compared with a timeline of PyTorch's memory, t.json\n\n"
            "                                                  forecast\n"
            "memory of a rank                    measured GiB       GiB  difference      %\n"
            "-----------------------------------------------------------------------------\n"
            "parameters                                  2.00      2.00        0.00    0.0\n"
            "gradients                                   0.00      0.00        0.00      -\n"
            "optimizer                                   8.00      8.00        0.00    0.0\n"
            "activations, communication, others          8.00     10.00       +2.00  +25.0\n"
            "-----------------------------------------------------------------------------\n"
            "peak allocated                             18.00     20.00       +2.00  +11.1\n");
}

TEST(MeasuredMemoryReport, LeavesOutWhatWasNotMeasured) {
  const formats::MeasuredMemory measured{
      .form = "summary", .allocated = GiB(25), .reserved = GiB(20), .at_peak = {}, .notes = {}};
  const forecast::MemoryForecast memory = Forecast();
  const std::string text = MeasuredMemoryText({"mine", "s.txt", &measured, &memory});
  EXPECT_EQ(text.find("parameters"), std::string::npos);
  EXPECT_NE(text.find("-20.0"), std::string::npos);  // 20 of 25 allocated
  EXPECT_NE(text.find("+10.0"), std::string::npos);  // 22 of 20 reserved
  const std::string json = MeasuredMemoryJson({"mine", "s.txt", &measured, &memory}, 0);
  EXPECT_NE(json.find("\"at_peak\": null"), std::string::npos);
  EXPECT_NE(json.find("\"peak_bytes\": 26843545600"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::report
