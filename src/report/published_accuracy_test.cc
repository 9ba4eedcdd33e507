#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/accuracy.h"
#include "src/scenario/published_file.h"
#include "src/validate/published.h"

namespace stepcast::report {
namespace {

using validate::PublishedAccuracy;
using validate::PublishedOutcome;

// Three rows: a step of 1 s forecast as 1.1 s with a peak of 8 GiB forecast as 10 GiB; one that
// needs tensor parallelism; and a fit row of 2 s forecast as 2 s.
PublishedAccuracy Sample() {
  PublishedAccuracy accuracy;
  scenario::PublishedSource source;
  source.name = "sample";
  source.source = "A <paper> & more";
  source.machine = "8 GPUs";
  source.rule = "as marked";
  scenario::PublishedCase row;
  row.name = "one";
  row.split = scenario::Split::kCheck;
  row.quality = scenario::Quality::kA;
  row.step_time = Seconds(1);
  row.stand_ins = {"fsdp2 stands in for fsdp1"};
  source.cases.push_back(row);
  row.name = "two";
  source.cases.push_back(row);
  row.name = "three";
  row.split = scenario::Split::kFit;
  row.step_time = Seconds(2);
  source.cases.push_back(row);
  accuracy.sources.push_back(source);

  PublishedOutcome outcome;
  outcome.model = "model";
  outcome.gpu = "gpu";
  outcome.devices = 8;
  outcome.tokens = 1000;
  outcome.forecast = stepcast::Milliseconds(1100);
  outcome.range = {stepcast::Milliseconds(1000), stepcast::Milliseconds(1200)};
  outcome.memory.push_back({scenario::MemoryKind::kReserved, GiB(8), GiB(10), {}, 0.1});
  outcome.rival.step_time = stepcast::Milliseconds(1500);
  outcome.over = GiB(1);
  accuracy.outcomes.push_back(outcome);
  PublishedOutcome missing;
  missing.index = 1;
  missing.reason = "the tensor axis is not supported yet";
  accuracy.outcomes.push_back(missing);
  outcome.index = 2;
  outcome.forecast = Seconds(2);
  outcome.range.reset();
  outcome.memory.clear();
  outcome.over = Bytes();
  outcome.rival = {};
  accuracy.outcomes.push_back(outcome);
  return accuracy;
}

// The first line that begins with `begin` and contains `word`.
std::string LineWith(const std::string& text, const std::string& begin, const std::string& word) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.starts_with(begin) && line.find(word) != std::string::npos) return line;
    at = end + 1;
  }
  return "";
}

TEST(PublishedAccuracyReport, TextKeepsFitAndCheckApartAndNamesReasons) {
  const std::string text = PublishedAccuracyText(Sample());
  EXPECT_NE(text.find("3 cases: 2 simulated, 1 not.\n"), std::string::npos);
  const std::string check = LineWith(text, "sample", "check A");
  EXPECT_NE(check.find("10.0"), std::string::npos) << check;
  EXPECT_NE(check.find("+10.0"), std::string::npos) << check;
  EXPECT_NE(check.find("50.0"), std::string::npos) << "the rival's error: " << check;
  EXPECT_NE(check.find("1 of 1"), std::string::npos) << "the range holds 1 s: " << check;
  EXPECT_NE(LineWith(text, "sample", "fit A").find("0.0"), std::string::npos);
  EXPECT_NE(LineWith(text, "sample", "tensor axis"), "");
  EXPECT_NE(LineWith(text, "sample", "1 GiB"), "") << "what does not fit is listed";
  EXPECT_NE(LineWith(text, "gpu", "step"), "") << "what is left on fit rows";
}

TEST(PublishedAccuracyReport, JsonHasEveryCase) {
  const auto json = nlohmann::json::parse(PublishedAccuracyJson(Sample()));
  ASSERT_EQ(json.at("cases").size(), 3u);
  const auto& first = json.at("cases").at(0);
  EXPECT_EQ(first.at("forecast_s"), 1.1);
  EXPECT_EQ(first.at("forecast_range_s"), nlohmann::json({1.0, 1.2}));
  EXPECT_EQ(first.at("memory").at(0).at("kind"), "reserved");
  EXPECT_EQ(json.at("cases").at(1).at("reason"), "the tensor axis is not supported yet");
  EXPECT_EQ(json.at("sources").at(0).at("groups").size(), 2u);
  EXPECT_FALSE(json.at("aims_met").get<bool>());
}

TEST(PublishedAccuracyReport, EveryCsvRecordHasAsManyFieldsAsTheHeading) {
  const std::string csv = PublishedAccuracyCsv(Sample());
  const auto fields = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  const std::string heading = csv.substr(0, csv.find('\r'));
  for (const char* name : {"sample,one", "sample,two", "sample,three"}) {
    EXPECT_EQ(fields(LineWith(csv, name, "")), fields(heading)) << name;
  }
}

TEST(PublishedAccuracyReport, ThePageNeedsNothingElse) {
  const std::string page = PublishedAccuracyHtml(Sample());
  // The markup before the libraries' text, which names addresses without requesting them.
  const std::string markup = page.substr(0, page.find("<script>"));
  for (const char* outside : {"src=", "href=\"http", "@import", "url("}) {
    EXPECT_EQ(markup.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("A &lt;paper&gt; &amp; more"), std::string::npos);
  // Two points for step times and one for memory.
  EXPECT_NE(markup.find("forecast against measured; 2 points from 1 source;"), std::string::npos);
  EXPECT_NE(markup.find("forecast against measured; 1 point from 1 source;"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::report
