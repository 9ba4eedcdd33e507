#include "src/report/page.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace stepcast::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Page WithChart() {
  Page page;
  page.kind = "Forecast";
  page.title = "a <b> & \"c\"";
  page.answer = {{.label = "Step time", .value = "4 s", .tone = Tone::kGood}};
  Chart chart;
  chart.label = "What it shows";
  chart.spec = Json{{"mark", "bar"}};
  chart.data.Word("name", "</script><b>");
  chart.data.Number("value", 1.5);
  chart.tips = {{"value", "Value", "ms", 3}};
  PageSection section{.heading = "First"};
  section.chart = std::move(chart);
  page.sections.push_back(std::move(section));
  return page;
}

TEST(ChartDataTest, WritesRepeatedValuesOnceAndWholeNumbersShort) {
  ChartData data;
  for (const char* name : {"b", "a", "b"}) data.Word("name", name);
  data.Number("value", 2);
  data.Number("value", 2.5);
  data.Missing("value");
  for (int i = 0; i < 3; ++i) data.Number("same", 7);
  EXPECT_EQ(data.ToJson().dump(),
            R"({"rows":3,"columns":{"name":[0,1,0],"value":[2,2.5,null],"same":7},)"
            R"("values":{"name":["b","a"]}})");
}

TEST(ChartDataTest, WritesIndicesOfNumbersThatRepeat) {
  ChartData data;
  for (int i = 0; i < 9; ++i) data.Number("value", i % 2 == 0 ? 123456 : 1.5);
  EXPECT_EQ(
      data.ToJson().dump(),
      R"({"rows":9,"columns":{"value":[0,1,0,1,0,1,0,1,0]},"values":{"value":[123456,1.5]}})");
}

TEST(PageTest, EscapesWhatStandsInIt) {
  const std::string html = PageHtml(WithChart());
  EXPECT_THAT(html, HasSubstr("<h1>a &lt;b&gt; &amp; &quot;c&quot;</h1>"));
  // Data cannot end a script element.
  EXPECT_THAT(html, HasSubstr("\\u003c/script>\\u003cb>"));
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
}

TEST(PageTest, AsksForNoOtherFile) {
  const std::string html = PageHtml(WithChart());
  for (const char* request : {"src=\"", "href=\"http", "@import", "url("}) {
    // The libraries' own text is not markup; only text before it is checked.
    EXPECT_THAT(html.substr(0, html.find("<script>")), Not(HasSubstr(request)));
  }
}

TEST(PageTest, CarriesTheLicencesOfWhatItCarries) {
  const std::string html = PageHtml(WithChart());
  EXPECT_THAT(html, HasSubstr("University of Washington Interactive Data Lab"));  // Vega
  EXPECT_THAT(html, HasSubstr("Mike Bostock"));                                   // d3
}

TEST(PageTest, WithoutChartsThereAreNoScripts) {
  Page page = WithChart();
  page.sections.front().chart.reset();
  EXPECT_THAT(PageHtml(page), Not(HasSubstr("<script")));
}

TEST(PageTest, TablesHaveHeadingsForRowsAndColumns) {
  Page page;
  Table table({{"what", Align::kLeft}, {"ms", Align::kRight}});
  table.AddRow({"forward", "1.5"});
  table.AddRule();
  table.AddRow({"step", "2.0"});
  PageSection section{.heading = "Time"};
  section.tables.push_back({.caption = "Parts", .table = table});
  page.sections.push_back(std::move(section));
  const std::string html = PageHtml(page);
  EXPECT_THAT(html,
              HasSubstr("<th scope=\"col\" class=\"left\">what</th><th scope=\"col\">ms</th>"));
  EXPECT_THAT(html,
              HasSubstr("<tr><th scope=\"row\" class=\"left\">forward</th><td>1.5</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr class=\"sum\"><th scope=\"row\" class=\"left\">step</th>"));
}

TEST(PageTest, TablesThatSortAndCommandsThatCopyNeedOnlyThePagesOwnScript) {
  Page page;
  PageSection section{.heading = "Plans"};
  section.tables.push_back({.caption = "Plans", .table = Table({{"step ms"}}), .sortable = true});
  section.texts.push_back({"The command", "stepcast list <b>", true});
  page.sections.push_back(std::move(section));
  const std::string html = PageHtml(page);
  EXPECT_THAT(html, HasSubstr("<table data-sortable>"));
  EXPECT_THAT(html, HasSubstr(" data-command>stepcast list &lt;b&gt;</pre>"));
  EXPECT_EQ(html.find("<script>"), html.rfind("<script>"));
  EXPECT_THAT(html, Not(HasSubstr("'unsafe-eval'")));
}

TEST(PageTest, AChartIsAGroup) {
  EXPECT_THAT(PageHtml(WithChart()), HasSubstr("role=\"group\" aria-roledescription=\"chart\""));
}

}  // namespace
}  // namespace stepcast::report
