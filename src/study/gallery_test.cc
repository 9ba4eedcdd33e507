#include "src/study/gallery.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace stepcast::study {
namespace {

// The rule chooses the rows, not their errors.
TEST(GalleryTest, RowsWereNeverFittedAndAreTheLargestOfTheirModels) {
  const auto entries = GalleryEntries();
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ(entries->size(), 7U);
  for (const GalleryEntry& entry : *entries) {
    EXPECT_EQ(entry.published.split, scenario::Split::kCheck) << entry.step.title;
    EXPECT_TRUE(entry.published.step_time.has_value()) << entry.step.title;
    EXPECT_FALSE(entry.step.source.empty()) << entry.step.title;
  }
  const auto row_of = [&](const char* name) {
    return std::find_if(entries->begin(), entries->end(),
                        [&](const GalleryEntry& entry) { return entry.name == name; })
        ->step.row;
  };
  // On 2,520 GPUs; other published steps ran on 280 to 1,024.
  EXPECT_EQ(row_of("mt-nlg-530b"), "megatron-sc21 sc21_t1_530B");
  // Two steps ran on 16,384 GPUs. The one with short sequences trains more tokens per second.
  EXPECT_EQ(row_of("llama-3-405b"), "misc llama3-405b-16384");
}

}  // namespace
}  // namespace stepcast::study
