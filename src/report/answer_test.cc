#include "src/report/answer.h"

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

Listing Example() {
  Listing listing{.name = "models",
                  .columns = {{"model", "name", Align::kLeft}, {"parameters", "parameters"}}};
  listing.rows = {{"gpt2", std::int64_t{124439808}}, {"x", std::int64_t{7}}};
  return listing;
}

TEST(Listing, IsATableInText) {
  Listing listing = Example();
  listing.footer = "A sentence.";
  EXPECT_EQ(listing.Text(),
            "model   parameters\n"
            "------------------\n"
            "gpt2   124,439,808\n"
            "x                7\n"
            "\n"
            "A sentence.\n");
}

TEST(Listing, HasNumbersInJson) {
  EXPECT_EQ(Example().ToJson(),
            "{\n"
            "  \"models\": [\n"
            "    {\n"
            "      \"name\": \"gpt2\",\n"
            "      \"parameters\": 124439808\n"
            "    },\n"
            "    {\n"
            "      \"name\": \"x\",\n"
            "      \"parameters\": 7\n"
            "    }\n"
            "  ]\n"
            "}\n");
}

AnswerTable Mixed() {
  AnswerTable table{{{"time", "time_s"}, {"share %", "share"}, {"", "note"}, {"who", ""}}};
  table.Add({stepcast::Milliseconds(12), InPerCent(0.5), "a,b", Cell("x", Json())});
  table.Add({std::optional<Time>(), InPerCent(0.25), WordOr(""), Cell("y", Json())});
  return table;
}

TEST(AnswerTable, PeopleAndProgramsHaveTheirOwnColumns) {
  EXPECT_EQ(Mixed().Text(),
            "  time  share %  who\n"
            "--------------------\n"
            "12.000     50.0    x\n"
            "     -     25.0    y\n");
  EXPECT_EQ(Mixed().ToTable(1).rows().size(), 1U);
  EXPECT_EQ(
      Mixed().ToJson().dump(),
      R"([{"time_s":0.012,"share":0.5,"note":"a,b"},{"time_s":null,"share":0.25,"note":null}])");
  EXPECT_EQ(Mixed().Csv(), "time_s,share,note\r\n0.012,0.5,\"a,b\"\r\n,0.25,\r\n");
}

TEST(AnswerTable, IsATableInMarkdown) {
  EXPECT_EQ(Markdown(Mixed().ToTable(1)),
            "| time | share % | who |\n|---:|---:|---:|\n| 12.000 | 50.0 | x |\n");
}

}  // namespace
}  // namespace stepcast::report
