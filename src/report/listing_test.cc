#include "src/report/listing.h"

#include "gtest/gtest.h"

namespace stepcast::report {
namespace {

Listing Example() {
  Listing listing{.name = "models",
                  .columns = {{"model", "name"}, {"parameters", "parameters", Align::kRight}}};
  listing.rows = {{"gpt2", std::int64_t{124439808}}, {"x", std::int64_t{7}}};
  return listing;
}

TEST(Listing, IsATableInText) {
  Listing listing = Example();
  listing.footer = "A sentence.";
  EXPECT_EQ(ListingText(listing),
            "model   parameters\n"
            "------------------\n"
            "gpt2   124,439,808\n"
            "x                7\n"
            "\n"
            "A sentence.\n");
}

TEST(Listing, HasNumbersInJson) {
  EXPECT_EQ(ListingJson(Example()),
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

}  // namespace
}  // namespace stepcast::report
