#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/planner/answers.h"

namespace stepcast::planner {
namespace {

RC_GTEST_PROP(SettingsLaws, TextHoldsTheSettings, ()) {
  const auto settings = *rc::gen::arbitrary<Settings>();
  RC_ASSERT(ToSettings(ToText(settings)) == settings);
}

TEST(SettingsTest, TextIsReadable) {
  EXPECT_EQ(ToText({{"data_parallel.bucket_size", "25 MiB"}, {"name", "a=1"}}),
            "data_parallel.bucket_size=25 MiB\nname=a=1\n");
}

class EvaluationsTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const given = std::getenv("TEST_TMPDIR");
    folder_ = std::string(given == nullptr ? "/tmp" : given) + "/evaluations." +
              std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Evaluates 0 to count - 1 to their squares; how many had to be worked out.
  std::int64_t Run(std::int64_t count, ResultStore* store, std::int64_t enough_after) {
    std::atomic<std::int64_t> worked{0};
    const auto pool = MakeThreadPool(
        [&](const std::string& item) {
          ++worked;
          const std::int64_t number = std::stoll(item);
          return std::to_string(number * number);
        },
        3);
    done_.clear();
    const auto evaluated =
        Evaluate({.count = count,
                  .item = [](std::int64_t i) { return std::to_string(i); },
                  .done =
                      [&](std::int64_t i, const std::string& result) {
                        EXPECT_EQ(result, std::to_string(i * i));
                        EXPECT_TRUE(done_.insert(i).second) << "twice: " << i;
                        return static_cast<std::int64_t>(done_.size()) < enough_after;
                      },
                  .begun = [&](std::int64_t known) { known_ = known; }},
                 *pool, store);
    EXPECT_TRUE(evaluated.has_value());
    return worked;
  }

  std::string folder_;
  std::set<std::int64_t> done_;
  std::int64_t known_ = -1;
};

TEST_F(EvaluationsTest, WithoutAStoreAllIsWorkedOut) {
  EXPECT_EQ(Run(100, nullptr, 1000), 100);
  EXPECT_EQ(done_.size(), 100U);
  EXPECT_EQ(known_, 0);
}

TEST_F(EvaluationsTest, WhatTheStoreKnowsIsNotWorkedOutAgain) {
  const std::string path = folder_ + "/results.sqlite";
  {
    const auto store = ResultStore::Open(path, {}).value();
    EXPECT_EQ(Run(40, store.get(), 1000), 40);
  }
  const auto store = ResultStore::Open(path, {}).value();
  EXPECT_EQ(store->kept(), 40);
  EXPECT_EQ(Run(100, store.get(), 1000), 60);
  EXPECT_EQ(done_.size(), 100U);
  EXPECT_EQ(known_, 40);
  EXPECT_EQ(Run(100, store.get(), 1000), 0);
  EXPECT_EQ(known_, 100);
}

TEST_F(EvaluationsTest, WhatWasDoneWhenItWasEnoughIsKept) {
  const auto store = ResultStore::Open(folder_ + "/results.sqlite", {}).value();
  Run(1000, store.get(), 10);
  EXPECT_EQ(done_.size(), 10U);
  EXPECT_EQ(store->kept(), 10);
}

}  // namespace
}  // namespace stepcast::planner
